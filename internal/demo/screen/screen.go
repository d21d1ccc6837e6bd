// Package screen decides how the demo looks in a terminal.
//
//	title, seed, clock
//	━━━━━━━━━━━━━━━━━━━━━━━━━━───────  how far the demo is
//	what goes on
//	╭ plain ──────────╮╭ gated ──────────╮
//	│ goodput, offered ││                 │  an area chart each
//	│ p50, p99         ││                 │  logarithmic, with the objective
//	│ refused by place ││                 │
//	│ the store        ││                 │
//	╰──────────────────╯╰─────────────────╯
//	the page's address, how to leave
//
// In the third act each tenant has a panel instead, with a scale of its own. In that of
// the checkouts there is one for each order, and in the last two one for each run:
//
//	╭ fifo ───────────╮╭ shares ─────────╮
//	│ checkouts        ││ the same scale  │  mean and p95
//	│ reads            ││ the same scale  │
//	│                  ││ weight          │  0 to 1
//	╰──────────────────╯╰─────────────────╯
//
// The first two panels have the same scales, so that heights can be compared. The
// rendering is a pure function of the state and the terminal's size; every line
// is at most as wide as the terminal and there are never more lines than it has,
// whatever the size. Colours are the terminal's own sixteen, and the view is
// readable without any.
//
// The view draws at its own pace the newest state it was shown, so a slow
// terminal never holds up the demo.
//
// What this package does not do: it does not play the demo, and it prints no
// result; the alternate screen it draws on is gone when it is closed.
package screen

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"github.com/spillgate/spillgate/internal/demo"
)

// frameEvery is the time between two drawings: often enough to look alive,
// seldom enough to leave the processors to the demo.
const frameEvery = 125 * time.Millisecond

// Screen is the view on one terminal.
type Screen struct {
	program *tea.Program
	newest  *atomic.Pointer[demo.State]
	ended   chan struct{}
	close   sync.Once
}

// Open takes over the terminal out until Close. url is the page's address, empty
// if there is none; leave is called when the person asks to leave, possibly more
// than once.
func Open(out *os.File, url string, leave func()) *Screen {
	newest := &atomic.Pointer[demo.State]{}
	m := model{newest: newest, url: url, leave: leave, look: newLook(lipgloss.NewRenderer(out))}
	s := &Screen{
		// Signals are the caller's: it ends the demo, and then this view.
		program: tea.NewProgram(m, tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler()),
		newest:  newest,
		ended:   make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		if _, err := s.program.Run(); err != nil {
			leave() // a terminal that cannot be drawn on
		}
	}()
	return s
}

// Show has s drawn soon. It does not block.
func (s *Screen) Show(state demo.State) { s.newest.Store(&state) }

// Close restores the terminal. Further calls do nothing.
func (s *Screen) Close() {
	s.close.Do(func() {
		s.program.Quit()
		<-s.ended
	})
}

// model is the program's state.
type model struct {
	newest        *atomic.Pointer[demo.State]
	shown         demo.State
	width, height int
	url           string
	leave         func()
	leaving       bool
	look          *look
}

type frameMsg struct{}

func nextFrame() tea.Cmd {
	return tea.Tick(frameEvery, func(time.Time) tea.Msg { return frameMsg{} })
}

// Init starts the frames.
func (m model) Init() tea.Cmd { return nextFrame() }

// Update takes the next frame, a new size or a key.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case frameMsg:
		if s := m.newest.Load(); s != nil {
			m.shown = *s
		}
		return m, nextFrame()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		switch msg.String() {
		case "ctrl+c", "q", "esc":
			m.leaving = true
			m.leave()
		}
	}
	return m, nil
}

// View draws the whole screen.
func (m model) View() string {
	if m.width == 0 {
		return ""
	}
	s := m.shown
	if m.leaving {
		s.Note = "ending the processes"
	}
	return m.look.render(s, m.url, m.width, m.height)
}
