package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// numberField is the header field in which a request says its number.
const numberField = "Request-Number"

// serveWeb serves a service over HTTP until ctx ends.
func (x *process) serveWeb(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	for i := range x.service.Methods {
		m := &x.service.Methods[i]
		mux.HandleFunc("/"+url.PathEscape(m.Name), func(w http.ResponseWriter, r *http.Request) {
			id, err := strconv.ParseUint(r.Header.Get(numberField), 10, 64)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			ctx := r.Context()
			if x.gate == nil {
				ctx = passed(ctx, r.Header)
			}
			work := func() error { return x.serve(ctx, m, id) }
			if x.semaphore != nil {
				err = x.semaphore.do(ctx, work)
			} else {
				err = work()
			}
			answer(w, answerSize(m, id), err)
		})
	}
	var h http.Handler = mux
	if x.gate != nil {
		h = httpgate.Handler(x.gate, mux, httpgate.Trust(httpgate.Everyone))
	}
	server := &http.Server{Handler: h}
	if x.gate != nil {
		httpgate.Track(server)
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer writes what became of a request. A refusal of a service that was called goes up
// with its reason.
func answer(w http.ResponseWriter, size int, err error) {
	if err == nil {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		var fill [16 << 10]byte
		for ; size > 0; size -= len(fill) {
			if _, err := w.Write(fill[:min(size, len(fill))]); err != nil {
				return // the caller has gone
			}
		}
		return
	}
	e := endOf(err)
	switch e.kind {
	case refused:
		w.Header().Set("Content-Type", problemType)
		if e.pushback >= 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((e.pushback+time.Second-1)/time.Second)))
		}
		w.WriteHeader(httpgate.Status(e.reason))
		_ = json.NewEncoder(w).Encode(problem{e.reason.String(), isPassedOn(err)})
	case expired:
		w.WriteHeader(http.StatusGatewayTimeout)
	default:
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// problemType is the media type of RFC 9457, in which refusals are explained.
const problemType = "application/problem+json"

type problem struct {
	Reason string `json:"reason"`
	Below  bool   `json:"below,omitempty"` // a service that was called refused
}

// webRefusal is the error of a request that was answered with a refusal.
type webRefusal struct {
	status   int
	reason   work.Reason
	pushback time.Duration
	below    bool
}

func (r *webRefusal) Error() string {
	return fmt.Sprintf("bed: status %d, %s", r.status, r.reason)
}

// webCaller calls over HTTP/1.1, the replicas in turn.
type webCaller struct {
	addrs  []string
	next   atomic.Uint64
	client *http.Client
	base   *http.Transport
	c      connection
	header string // tags of a caller without a wallet, "" if it has none
}

func newWebCaller(addrs []string, c connection) *webCaller {
	w := &webCaller{addrs: addrs, c: c, base: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	w.base.DialContext = w.c.dial
	if tags := c.strangersTags(); tags != "" {
		w.header = wire.Header([]byte(tags))
	}
	w.client = &http.Client{Transport: sentTripper{w.base}}
	if c.wallet {
		w.client.Transport = httpgate.Transport(w.client.Transport)
	}
	return w
}

func (w *webCaller) call(ctx context.Context, method string, id uint64) error {
	addr := w.addrs[int(w.next.Add(1)%uint64(len(w.addrs)))]
	if w.c.wallet && w.c.tags != (wire.Tags{}) {
		ctx = live.WithTags(ctx, w.c.tags)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/"+url.PathEscape(method), nil)
	if err != nil {
		return err
	}
	r.Header.Set(numberField, strconv.FormatUint(id, 10))
	r.Header.Set("User-Agent", w.c.who)
	r.Header.Set(traceField, span(ctx, id))
	if header := w.header; header != "" {
		r.Header.Set(wire.HeaderName, header)
	} else if tags := live.Onward(ctx); !w.c.wallet && tags != (wire.Tags{}) {
		r.Header.Set(wire.HeaderName, wire.Header(tags.Append(nil)))
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	return refusalOf(resp)
}

// mostProblem bounds what is read of the body of an error, in bytes.
const mostProblem = 4 << 10

func refusalOf(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, mostProblem))
	_, _ = io.Copy(io.Discard, resp.Body)
	var p problem
	if resp.Header.Get("Content-Type") != problemType || json.Unmarshal(body, &p) != nil {
		switch resp.StatusCode {
		case http.StatusGatewayTimeout:
			return context.DeadlineExceeded
		case http.StatusTooManyRequests, http.StatusServiceUnavailable: // somebody else's refusal gives no reason
			return &webRefusal{status: resp.StatusCode, pushback: -1}
		}
		return fmt.Errorf("bed: status %d: %.200s", resp.StatusCode, body)
	}
	r := &webRefusal{status: resp.StatusCode, pushback: -1, below: p.Below}
	r.reason, _ = reasonNamed(p.Reason)
	if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		r.pushback = time.Duration(after) * time.Second
	}
	return r
}

// connect does nothing: HTTP/1.1 connects with its requests.
func (w *webCaller) connect(context.Context) error { return nil }

func (w *webCaller) close() { w.base.CloseIdleConnections() }

// sentTripper counts the requests that go out.
type sentTripper struct{ next http.RoundTripper }

func (s sentTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	countSent(r.Context())
	return s.next.RoundTrip(r)
}
