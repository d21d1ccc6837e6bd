package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxBody bounds what a client sends, in bytes.
	maxBody = 64 << 10
	// answerTime bounds an answer.
	answerTime = 15 * time.Second
)

// Handler answers over HTTP, mistakes as application/problem+json (RFC 9457):
//
//	GET    /v1/place?topic=T&publisher=P[&group=G][&rate=R][&objective=D]   where P belongs, which it joins if it is new
//	GET    /v1/topics                      all topics with their parts
//	GET    /v1/topics/T                    why T is where it is
//	PUT    /v1/topics/T[?dry-run]          sets Limits; the answer is as of GET
//	DELETE /v1/topics/T
//	DELETE /v1/topics/T/publishers/P
//	GET    /v1/nodes
//	PUT    /v1/nodes/N[?dry-run]           sets a Node; the answer is the moves
//	DELETE /v1/nodes/N                     once it is drained
//	POST   /v1/nodes/N/drain[?dry-run][&off]
//	GET    /v1/moves
//	GET    /healthz
//
// It trusts every caller: let it listen where only clients and operators are.
func (p *Placer) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(ctx context.Context, r *http.Request) (any, error), parameters ...string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), answerTime)
			defer cancel()
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			if err := checkQuery(r.URL.RawQuery, parameters); err != nil {
				problem(w, err)
			} else if v, err := f(ctx, r); err != nil {
				problem(w, err)
			} else {
				answer(w, http.StatusOK, "application/json", v)
			}
		})
	}
	handle("GET /v1/place", p.getPlace, "topic", "publisher", "group", "rate", "objective")
	handle("GET /v1/topics", p.getTopics)
	handle("GET /v1/topics/{topic}", p.getTopic)
	handle("PUT /v1/topics/{topic}", p.putTopic, dryRun)
	handle("DELETE /v1/topics/{topic}", func(ctx context.Context, r *http.Request) (any, error) {
		return p.moves(ctx, r, func(s *State) error { return s.RemoveTopic(r.PathValue("topic")) })
	}, dryRun)
	handle("DELETE /v1/topics/{topic}/publishers/{publisher}", func(ctx context.Context, r *http.Request) (any, error) {
		return p.moves(ctx, r, func(s *State) error { return s.Leave(r.PathValue("topic"), r.PathValue("publisher")) })
	}, dryRun)
	handle("GET /v1/nodes", func(ctx context.Context, r *http.Request) (any, error) {
		s, _, err := p.Load(ctx)
		if err != nil {
			return nil, err
		}
		return s.List(), nil
	})
	handle("PUT /v1/nodes/{node}", p.putNode, dryRun)
	handle("DELETE /v1/nodes/{node}", func(ctx context.Context, r *http.Request) (any, error) {
		return p.moves(ctx, r, func(s *State) error { return s.RemoveNode(r.PathValue("node")) })
	}, dryRun)
	handle("POST /v1/nodes/{node}/drain", func(ctx context.Context, r *http.Request) (any, error) {
		return p.moves(ctx, r, func(s *State) error { return s.Drain(r.PathValue("node"), !r.URL.Query().Has("off")) })
	}, dryRun, "off")
	handle("GET /v1/moves", func(ctx context.Context, r *http.Request) (any, error) {
		s, _, err := p.Load(ctx)
		if err != nil {
			return nil, err
		}
		return s.Moves, nil
	})
	handle("GET /healthz", func(ctx context.Context, r *http.Request) (any, error) {
		_, revision, err := p.Load(ctx)
		return map[string]uint64{"revision": revision}, err
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		no := &none{header: http.Header{}}
		h.ServeHTTP(no, r)
		if allow := no.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			refuse(w, no.status, "The path has no such method", fmt.Sprintf("method is %s, expected %s", r.Method, allow), nil)
			return
		}
		refuse(w, http.StatusNotFound, "There is no such path", fmt.Sprintf("path is %.200q, expected one that begins with /v1/place, /v1/topics, /v1/nodes or /v1/moves", r.URL.Path), nil)
	})
}

// none takes what a ServeMux answers where it has no handler.
type none struct {
	header http.Header
	status int
}

func (n *none) Header() http.Header         { return n.header }
func (n *none) WriteHeader(status int)      { n.status = status }
func (n *none) Write(b []byte) (int, error) { return len(b), nil }

// dryRun is the parameter that has a change tried and not made.
const dryRun = "dry-run"

// checkQuery returns what is wrong with the names of a query's parameters: one that is misspelled would be as if it were left out, and a
// drain that was to be tried would be made.
func checkQuery(query string, parameters []string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return &Mistake{"query", err.Error(), "parameters as in topic=t&publisher=p"}
	}
	want := "no parameter here"
	if len(parameters) > 0 {
		want = "one of " + strings.Join(parameters, ", ") + ", each once"
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(parameters, name) || len(values[name]) > 1 {
			return &Mistake{"query", fmt.Sprintf("%.100q", name), want}
		}
	}
	return nil
}

// Server returns a server of p.Handler that clients which send or read slowly do not hold.
func Server(p *Placer, log *log.Logger) *http.Server {
	return &http.Server{Handler: p.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log}
}

func (p *Placer) getPlace(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	j := Join{Publisher: q.Get("publisher"), Group: q.Get("group")}
	if text := q.Get("rate"); text != "" {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !goodRate(rate) {
			return nil, &Mistake{"rate", text, aRate}
		}
		j.Rate = rate
	}
	if text := q.Get("objective"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, &Mistake{"objective", text, "a duration above 0, such as 5ms"}
		}
		j.Objective = d.Seconds()
	}
	if q.Get("topic") == "" {
		return nil, &Mistake{"topic", `""`, "a name, as in ?topic=t&publisher=p"}
	}
	at, err := p.Place(ctx, q.Get("topic"), j)
	if err == nil && at.Node == "" {
		return nil, errNoRoom
	}
	return at, err
}

// errNoRoom is of a publisher that no node has room for.
var errNoRoom = errors.New("no node has room for this publisher: add a node")

// Listed is a topic in a list.
type Listed struct {
	Topic string `json:"topic"`
	Limits
	// Wanted is the objective that counts, in seconds: see Topic.Wanted.
	Wanted  float64 `json:"wanted_objective_seconds"`
	Parts   []Part  `json:"parts"`
	Nowhere int     `json:"nowhere,omitempty"`
}

func (p *Placer) getTopics(ctx context.Context, _ *http.Request) (any, error) {
	s, _, err := p.Load(ctx)
	if err != nil {
		return nil, err
	}
	return s.ListTopics(), nil
}

func (p *Placer) getTopic(ctx context.Context, r *http.Request) (any, error) {
	s, _, err := p.Load(ctx)
	if err != nil {
		return nil, err
	}
	return s.Explain(r.PathValue("topic"))
}

func (p *Placer) putTopic(ctx context.Context, r *http.Request) (any, error) {
	var l Limits
	if err := decode(r, &l); err != nil {
		return nil, err
	}
	s, err := p.change(ctx, r, func(s *State) error { return s.SetTopic(r.PathValue("topic"), l) })
	if err != nil {
		return nil, err
	}
	return s.Explain(r.PathValue("topic"))
}

func (p *Placer) putNode(ctx context.Context, r *http.Request) (any, error) {
	var n Node
	if err := decode(r, &n); err != nil {
		return nil, err
	}
	return p.moves(ctx, r, func(s *State) error { return s.SetNode(r.PathValue("node"), n) })
}

// change makes a change, or tries it where the query says dry-run.
func (p *Placer) change(ctx context.Context, r *http.Request, change func(*State) error) (*State, error) {
	if r.URL.Query().Has(dryRun) {
		return p.Try(ctx, change)
	}
	return p.Update(ctx, change)
}

// moves makes a change and returns the moves that it meant.
func (p *Placer) moves(ctx context.Context, r *http.Request, change func(*State) error) (any, error) {
	return Moved(func(c func(*State) error) (*State, error) { return p.change(ctx, r, c) }, change)
}

// Moved makes a change by Update or Try, and returns the moves that it meant.
func Moved(by func(func(*State) error) (*State, error), change func(*State) error) ([]Move, error) {
	s, err := by(func(s *State) error {
		for i := range s.Moves {
			s.Moves[i].old = true
		}
		return change(s)
	})
	if err != nil {
		return nil, err
	}
	moves := []Move{}
	for _, m := range s.Moves {
		if !m.old {
			moves = append(moves, m)
		}
	}
	return moves, nil
}

// decode reads the body.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		return &Mistake{"body", err.Error(), "a JSON object of numbers and texts such as " + sample(into)}
	}
	return nil
}

// sample returns an object that may be put instead of into.
func sample(into any) string {
	switch into.(type) {
	case *Node:
		into = Node{Address: "host:1883", Capacity: 20_000}
	case *Limits:
		into = Limits{Rate: 1100, Burst: 26, Objective: 0.005, Each: 10}
	}
	text, _ := json.Marshal(into) // never fails
	return string(text)
}

// problem answers a mistake.
func problem(w http.ResponseWriter, err error) {
	status, title := http.StatusServiceUnavailable, "The state cannot be read or written"
	var wrong *Mistake
	switch {
	case errors.As(err, &wrong):
		status, title = http.StatusBadRequest, "The request is wrong"
	case errors.Is(err, ErrUnknown):
		status, title = http.StatusNotFound, "There is no such thing"
	case errors.Is(err, errNoRoom):
		status, title = http.StatusInsufficientStorage, "The nodes are full"
	}
	if status == http.StatusServiceUnavailable || status == http.StatusInsufficientStorage {
		w.Header().Set("Retry-After", "1")
	}
	refuse(w, status, title, err.Error(), mistakes(err))
}

// refuse answers a problem.
func refuse(w http.ResponseWriter, status int, title, detail string, mistakes []*Mistake) {
	answer(w, status, "application/problem+json", map[string]any{"title": title, "status": status, "detail": detail, "mistakes": mistakes})
}

// mistakes returns those of an error.
func mistakes(err error) (all []*Mistake) {
	switch e := err.(type) {
	case *Mistake:
		return []*Mistake{e}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			all = append(all, mistakes(err)...)
		}
	case interface{ Unwrap() error }:
		return mistakes(e.Unwrap())
	}
	return all
}

func answer(w http.ResponseWriter, status int, kind string, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		data, status = fmt.Appendf(nil, "{\"title\": %q}", err), http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}
