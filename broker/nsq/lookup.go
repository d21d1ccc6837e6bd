package nsq

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/netutil"
)

// Lookup answers the questions that consumers of NSQ have for nsqlookupd: where a topic's producers are. The answer is
// this node, for every topic, since its channels have the messages of all nodes. Consumers that ask another node as well
// get each message from both: have all of them ask the same one. Its methods may be called from any goroutine.
//
//	GET /lookup?topic=T   this node, or 400 for a name that no topic has
//	GET /nodes            this node
//	GET /ping             OK
type Lookup struct {
	server *http.Server
	at     func() net.Addr
}

const (
	// lookupHeader bounds the header of a question, in bytes.
	lookupHeader = 16 << 10
	// lookupConnections bounds the connections of those who ask. Further ones wait until one ends, which takes a minute at
	// most where nothing is asked.
	lookupConnections = 1000
)

// NewLookup returns a lookup that tells where consumers connect. Where at has no address of its own, since it listens on all of
// the machine's, they are told the one by which they asked.
func NewLookup(at func() net.Addr, errors *log.Logger) *Lookup {
	l := &Lookup{at: at}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK")) })
	mux.HandleFunc("GET /lookup", l.lookup)
	mux.HandleFunc("GET /nodes", l.nodes)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: lookupHeader, ErrorLog: errors}
	return l
}

// Serve serves questions until in is closed, with TLS if secure is not nil.
func (l *Lookup) Serve(in net.Listener, secure *tls.Config) error {
	in = netutil.LimitListener(in, lookupConnections)
	if secure != nil {
		in = tls.NewListener(in, secure)
	}
	err := l.server.Serve(in)
	if errors.Is(err, http.ErrServerClosed) {
		return net.ErrClosed
	}
	return err
}

// Close ends the connections of those who ask.
func (l *Lookup) Close() { _ = l.server.Close() }

// place is a node, as nsqlookupd describes one.
type place struct {
	Remote    string `json:"remote_address"`
	Hostname  string `json:"hostname"`
	Broadcast string `json:"broadcast_address"`
	TCP       int    `json:"tcp_port"`
	HTTP      int    `json:"http_port"`
	Version   string `json:"version"`
}

// here describes this node to whoever asks.
func (l *Lookup) here(r *http.Request) place {
	host, port, _ := net.SplitHostPort(l.at().String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		if asked, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			host, _, _ = net.SplitHostPort(asked.String())
		}
	}
	p := place{Remote: net.JoinHostPort(host, port), Hostname: host, Broadcast: host, Version: speaks}
	if name, err := os.Hostname(); err == nil {
		p.Hostname = name
	}
	p.TCP, _ = strconv.Atoi(port) // of a listener
	return p
}

func (l *Lookup) lookup(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("topic")
	switch _, ok := topicName(nil, []byte(name)); {
	case name == "":
		told(w, http.StatusBadRequest, map[string]string{"message": "MISSING_ARG_TOPIC"})
	case !ok:
		told(w, http.StatusBadRequest, map[string]string{"message": "INVALID_ARG_TOPIC"})
	default:
		told(w, http.StatusOK, map[string]any{"channels": []string{}, "producers": []place{l.here(r)}})
	}
}

func (l *Lookup) nodes(w http.ResponseWriter, r *http.Request) {
	told(w, http.StatusOK, map[string]any{"producers": []place{l.here(r)}})
}

// told writes an answer as nsqlookupd does since its version 1.
func told(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-NSQ-Content-Type", "nsq; version=1.0")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
