package main

import (
	"context"
	"os"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
)

// topLive shows views on a terminal until the person leaves or ctx ends.
func topLive(ctx context.Context, out *os.File, readers []topReader, every time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := topScreen{look: newTopLook(out), width: topWidth(out), height: 24}
	program := tea.NewProgram(m, tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer program.Quit()
		var before *topView
		for tick := time.NewTicker(every); ; {
			v := readTop(ctx, readers, before)
			if ctx.Err() != nil {
				tick.Stop()
				return
			}
			before = v
			program.Send(v)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	_, err := program.Run()
	cancel()
	<-ended
	return err
}

// topScreen is the live view: the newest view, and how far down it is scrolled.
type topScreen struct {
	look          *topLook
	view          *topView
	width, height int
	top           int
	still         bool // p was pressed: new views are left out
}

// Init begins with nothing.
func (m topScreen) Init() tea.Cmd { return nil }

// Update takes a key, a size or a view.
func (m topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case *topView:
		if !m.still || m.view == nil {
			m.view = msg
		}
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m, tea.Quit
		case "p", " ":
			m.still = !m.still
		case "down", "j":
			m.top++
		case "up", "k":
			m.top--
		case "pgdown":
			m.top += m.height - 1
		case "pgup":
			m.top -= m.height - 1
		case "home", "g":
			m.top = 0
		}
	}
	m.top = max(0, min(m.top, len(m.lines())-(m.height-1)))
	return m, nil
}

func (m topScreen) lines() []string {
	if m.view == nil {
		return []string{"reading the sources …"}
	}
	return strings.Split(strings.TrimRight(m.look.screen(m.view, m.width), "\n"), "\n")
}

// View draws what fits, and the keys.
func (m topScreen) View() string {
	lines := m.lines()
	room := max(m.height-1, 1)
	lines = lines[min(m.top, len(lines)):]
	lines = lines[:min(room, len(lines))]
	keys := "q leave  p pause  ↑ ↓ scroll"
	if m.still {
		keys = "paused  " + keys
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, m.look.faint.Render(ansi.Truncate(keys, m.width, ""))), "\n")
}
