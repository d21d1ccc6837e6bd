package telemetry

import (
	"encoding/json"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

// The paths of an admin listener.
const (
	PathMetrics = "/metrics"
	PathStatus  = "/.spillgate/status"
	PathLive    = "/.spillgate/health/live"
	PathReady   = "/.spillgate/health/ready"
)

// adminConnections is the most connections of an admin listener at once; the next one waits
// unaccepted.
const adminConnections = 64

// Admin returns what every admin listener serves: metrics, the status as JSON, and health.
// ready says whether the program can serve, and in a word why. A caller may add paths, which the
// list at / names if they are among more. It answers every client, so it belongs on a private
// address.
func (t *Telemetry) Admin(status func() any, ready func() (word string, ok bool), more ...string) *http.ServeMux {
	mux := http.NewServeMux()
	list := strings.Join(append([]string{PathMetrics, PathStatus, PathLive, PathReady}, more...), "\n") + "\n"
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(list)) })
	mux.Handle("GET "+PathMetrics, t.Handler())
	mux.HandleFunc("GET "+PathStatus, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(status())
	})
	mux.HandleFunc("GET "+PathLive, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("alive\n")) })
	mux.HandleFunc("GET "+PathReady, func(w http.ResponseWriter, _ *http.Request) {
		word, ok := ready()
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(word + "\n"))
	})
	return mux
}

// AdminServer returns a server for an admin listener with suitable limits; AdminListener
// bounds the listener. errors takes the messages of net/http.
func AdminServer(h http.Handler, errors *log.Logger) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: errors}
}

// AdminListener returns l with at most 64 connections at once: see AdminServer.
func AdminListener(l net.Listener) net.Listener { return netutil.LimitListener(l, adminConnections) }
