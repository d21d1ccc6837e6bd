// Package page decides how the demo looks in a browser.
//
//	State ──Show──▶ Server ──server-sent events──▶ page.js ──▶ charts, figures, text
//	                   └──── /state.json ────▶ programs
//
// The feed is the whole state each time, at most four times a second and always
// the newest, so a browser may come late, leave, or be slow, and shows the truth
// as soon as it has caught up. The page is one HTML, one CSS and one script file
// without dependencies; it asks nothing of other hosts. Everything that its
// charts show is also there as text.
//
// What this package does not do: it does not remember states, and it takes no
// input from browsers.
package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/demo"
)

//go:embed index.html page.css page.js icon.svg
var files embed.FS

const (
	// eventGap is the least time between two states on one stream.
	eventGap = 250 * time.Millisecond
	// mostStreams bounds the browsers that watch at once.
	mostStreams = 32
	// farewell is how long Close waits for browsers to take the last state.
	farewell = 2 * time.Second
)

// Server serves the page. Its methods are safe for concurrent use.
type Server struct {
	listener net.Listener
	http     *http.Server
	served   sync.WaitGroup

	mu      sync.Mutex
	state   demo.State
	changed chan struct{} // closed at the next Show
	closed  chan struct{}
	close   sync.Once
	streams int
}

// Serve starts to serve the page at a TCP address.
func Serve(addr string) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	s := &Server{listener: listener, changed: make(chan struct{}), closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", file("index.html", "text/html; charset=utf-8"))
	mux.HandleFunc("GET /page.css", file("page.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /page.js", file("page.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /icon.svg", file("icon.svg", "image/svg+xml"))
	mux.HandleFunc("GET /state.json", s.snapshot)
	mux.HandleFunc("GET /events", s.events)
	s.http = &http.Server{Handler: headers(mux), ReadHeaderTimeout: 5 * time.Second}
	s.served.Go(func() { _ = s.http.Serve(listener) })
	return s, nil
}

// URL returns the page's address.
func (s *Server) URL() string {
	host, port, _ := net.SplitHostPort(s.listener.Addr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// Show makes state the newest one. It does not block.
func (s *Server) Show(state demo.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
	close(s.changed)
	s.changed = make(chan struct{})
}

// Close sends the newest state to the viewers and stops serving. Further
// calls do nothing.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.closed)
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			_ = s.http.Close()
		}
		s.served.Wait()
	})
}

// newest returns the newest state and a channel that is closed when there is a
// newer one.
func (s *Server) newest() (demo.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

func (s *Server) snapshot(w http.ResponseWriter, _ *http.Request) {
	state, _ := s.newest()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(state)
}

// events streams states until the browser leaves or the server closes.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		http.Error(w, fmt.Sprintf("%d browsers watch already, the most there may be", mostStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	gap := time.NewTimer(0)
	defer gap.Stop()
	sent := -1
	send := func() error {
		state, _ := s.newest()
		if state.Number == sent {
			return nil
		}
		sent = state.Number
		text, err := json.Marshal(state)
		if err != nil {
			return err
		}
		// A browser that takes nothing for so long is gone.
		deadline := control.SetWriteDeadline(time.Now().Add(farewell))
		_, err = fmt.Fprintf(w, "event: state\ndata: %s\n\n", text)
		return errors.Join(err, deadline, control.Flush())
	}
	for {
		_, changed := s.newest()
		if send() != nil {
			return
		}
		gap.Reset(eventGap)
		for range 2 { // the gap is over, and there is news
			select {
			case <-gap.C:
				gap.Stop()
			case <-changed:
				changed = nil
			case <-r.Context().Done():
				return
			case <-s.closed:
				if send() == nil {
					_, _ = fmt.Fprint(w, "event: end\ndata: {}\n\n")
					_ = control.Flush()
				}
				return
			}
		}
	}
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams >= mostStreams {
		return false
	}
	s.streams++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams--
}

// file serves one embedded file.
func file(name, contentType string) http.HandlerFunc {
	content, err := files.ReadFile(name)
	return func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(content)
	}
}

// headers keeps browsers from keeping, framing or mixing in anything.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}
