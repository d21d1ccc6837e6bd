package chains

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const (
	maxSize  = 16 << 20 // bytes of an answer
	maxRoute = 64       // characters
)

// passed are the headers that a service hands on as they came, as an application
// with context propagation does.
var passed = [...]string{"Tracestate", "Baggage", wire.HeaderName}

// goService is one service of a chain, the same as the web application for Tomcat:
// see webapp/Step.java.
type goService struct {
	name    string
	mean    time.Duration
	workers *workers
	client  *http.Client
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns: 4096, MaxIdleConnsPerHost: 1024, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}
}

// ServeHTTP implements http.Handler.
func (s *goService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/stats":
		answerJSON(w, s.workers.read())
		return
	case "/weights":
		answerJSON(w, s.workers.steer.weighed())
		return
	}
	size, hops, next, err := parseStep(r.URL)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var tags wire.Tags
	_ = wire.ParseBaggage(strings.Join(r.Header["Baggage"], ","), &tags) // what is no class is the default one
	status := s.step(r, tags.Class, hops, next)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(size))
	var fill [16 << 10]byte
	for ; size > 0; size -= len(fill) {
		if _, err := w.Write(fill[:min(size, len(fill))]); err != nil {
			return // the caller has gone
		}
	}
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// step does this service's work and then has the rest of the chain done.
func (s *goService) step(r *http.Request, class work.Class, hops int, next string) (status int) {
	s.workers.steer.onArrival(class)
	p, err := s.workers.serve(r.Context(), class)
	if err != nil {
		if r.Context().Err() != nil {
			s.workers.steer.onCancel(class, time.Since(p.arrived))
		}
		return http.StatusServiceUnavailable
	}
	if next != "" {
		status, err = s.call(r, next)
	} else {
		status = http.StatusOK
	}
	switch {
	case r.Context().Err() != nil:
		if class == work.Interactive { // no order keeps who leaves while being served
			s.workers.steer.onCancel(class, time.Since(p.arrived))
		}
	case err != nil:
		return http.StatusBadGateway
	case status == http.StatusOK:
		s.workers.steer.onDone(class, p, time.Since(p.arrived), time.Duration(1+hops)*s.mean)
	}
	return status
}

// call calls the next service, reads its answer to the end and returns its status.
func (s *goService) call(r *http.Request, next string) (int, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, next, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("User-Agent", s.name)
	req.Header.Set("Traceparent", span(r.Header.Get("Traceparent")))
	for _, name := range passed {
		if v := r.Header[name]; len(v) > 0 {
			req.Header[name] = v
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// parseStep reads what a request asks for: the size of the answer, how many
// services come after this one, and the URL of the first of them.
func parseStep(u *url.URL) (size, hops int, next string, err error) {
	function, ok := strings.CutPrefix(u.Path, "/step/")
	if !ok || function == "" || len(function) > 32 || strings.Trim(function, "abcdefghijklmnopqrstuvwxyz") != "" {
		return 0, 0, "", errors.New("expected /step/FUNCTION in small letters")
	}
	query := u.Query()
	if text := query.Get("size"); text != "" {
		if size, err = strconv.Atoi(text); err != nil || size < 0 || size > maxSize {
			return 0, 0, "", fmt.Errorf("size: expected 0 to %d", maxSize)
		}
	}
	route := query.Get("route")
	if route == "" {
		return size, 0, "", nil
	}
	if len(route) > maxRoute {
		return 0, 0, "", fmt.Errorf("route: expected at most %d characters", maxRoute)
	}
	ports := strings.Split(route, ",")
	for _, port := range ports {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return 0, 0, "", errors.New("route: expected ports and commas")
		}
	}
	next = stepURL("127.0.0.1:"+ports[0], function, size, ports[1:])
	return size, len(ports), next, nil
}

// stepURL is the URL of a request for a function at a server, which then takes the
// route.
func stepURL(server, function string, size int, route []string) string {
	u := "http://" + server + "/step/" + function + "?size=" + strconv.Itoa(size)
	if len(route) > 0 {
		u += "&route=" + strings.Join(route, ",")
	}
	return u
}

// span returns a traceparent of the same trace with a span of its own, of a new
// trace if there is none.
func span(parent string) string {
	if parts := strings.Split(parent, "-"); len(parts) == 4 && len(parts[1]) == 32 {
		return fmt.Sprintf("00-%s-%016x-01", parts[1], rand.Uint64()|1)
	}
	return trace(rand.Uint64(), rand.Uint64())
}

// trace returns the traceparent of a trace that begins.
func trace(high, low uint64) string {
	return fmt.Sprintf("00-%016x%016x-%016x-01", high|1, low, rand.Uint64()|1)
}
