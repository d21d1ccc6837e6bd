package httpgate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/tracer"
)

// TestACulpritOverHTTP: whatever a handler makes of its cancelled context, the client
// gets 503 with what it needs to send the request again; but an answer that was made all
// the same is an answer.
func TestACulpritOverHTTP(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ending func(w http.ResponseWriter)
		status int
	}{
		{"says nothing", func(http.ResponseWriter) {}, http.StatusServiceUnavailable},
		{"has an error of its own", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			http.Error(w, "it broke", http.StatusInternalServerError)
		}, http.StatusServiceUnavailable},
		{"answers", func(w http.ResponseWriter) { io.WriteString(w, "done") }, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) { culpritEnds(t, tt.ending, tt.status) })
	}
}

func culpritEnds(t *testing.T, ending func(w http.ResponseWriter), want int) {
	gate, err := live.NewGate(live.GateConfig{
		Config:  admission.Config{Objective: 100 * time.Millisecond},
		Culprit: live.CulpritConfig{Mode: culprit.Enforce},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	tr, err := tracer.Of(gate, tracer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	lock := tr.NewMutex("store")
	var reports, reads atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		if lock.Lock(r.Context()) == nil {
			time.Sleep(time.Millisecond)
			lock.Unlock(r.Context())
		}
	})
	mux.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		if reports.Add(1) > 1 {
			io.WriteString(w, "done")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute) // as handlers do
		defer cancel()
		if lock.Lock(ctx) != nil {
			return
		}
		<-ctx.Done()
		lock.Unlock(ctx)
		if !errors.Is(context.Cause(ctx), live.ErrCancelled) {
			t.Errorf("the cause is %v, expected %v", context.Cause(ctx), live.ErrCancelled)
		}
		w.Header().Set("Connection", "close")
		ending(w)
	})
	server := httptest.NewUnstartedServer(Handler(gate, mux))
	Track(server.Config)
	server.Start()
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()

	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer await.All(t, &readers, "the clients to end")
	defer stop()
	for range 8 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if resp, err := client.Get(server.URL + "/read"); err == nil {
					io.Copy(io.Discard, resp.Body)
					if resp.Body.Close(); resp.StatusCode == http.StatusOK {
						reads.Add(1)
					}
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	read := func(when string) {
		until := reads.Load() + 100
		over := time.Now().Add(time.Minute)
		for reads.Load() < until {
			if time.Now().After(over) {
				t.Fatalf("no hundred reads %s; state %+v", when, gate.Culprits())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	read("before the culprit")
	resp, err := client.Get(server.URL + "/report")
	for err == nil && reports.Load() == 0 { // the machine is busy, and the gate refused it
		resp.Body.Close()
		time.Sleep(10 * time.Millisecond)
		resp, err = client.Get(server.URL + "/report")
	}
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != want {
		t.Fatalf("status %d, %q, expected %d", resp.StatusCode, body, want)
	}
	read("after the cancel")
	if want == http.StatusOK {
		return
	}
	if !resp.Close {
		t.Error("the connection goes on, where the handler had its answer be the last")
	}
	var problem struct{ Reason, Title string }
	if err := json.Unmarshal(body, &problem); err != nil || problem.Reason != "culprit" {
		t.Errorf("body %q, expected a problem of the reason culprit", body)
	}
	if resp.Header.Get("Retry-After") == "" || resp.Header.Get(resendField) == "" || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("header %v, expected Retry-After and %s, and nothing of the handler's", resp.Header, resendField)
	}
	// The token counts once the server has been well for a while, which with readers a busy
	// machine may never be.
	stop()
	await.All(t, &readers, "the clients to end")
	again(t, client, server.URL+"/report", resp.Header.Get(resendField))
}

// again sends a request with a token, and without, as a client that knows nothing of
// Spillgate would.
func again(t *testing.T, client *http.Client, url, token string) {
	t.Helper()
	get := func(token string) int {
		r, _ := http.NewRequest(http.MethodGet, url, nil)
		if token != "" {
			r.Header.Set("Spillgate", token)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if code := get(""); code != http.StatusServiceUnavailable {
		t.Errorf("without the token %d, expected 503: the kind is limited", code)
	}
	over := time.Now().Add(time.Minute)
	code := get(token)
	for ; code == http.StatusServiceUnavailable && time.Now().Before(over); code = get(token) {
		time.Sleep(100 * time.Millisecond)
	}
	if code != http.StatusOK {
		t.Errorf("with the token %d, expected 200", code)
	}
	if code := get(token); code != http.StatusServiceUnavailable {
		t.Errorf("with the token a second time %d, expected 503", code)
	}
}

// TestATokenGoesOnToWhoIssuedIt: a server whose gate does not know the token that a request
// shows passes it on to the servers that it calls for that request, one of which does.
func TestATokenGoesOnToWhoIssuedIt(t *testing.T) {
	token := wire.Token{1, 2, 3}
	behind := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, _ := wire.ResendOf(r.Header.Get(field))
		io.WriteString(w, shown.String())
	}))
	calls := Transport(base(t, 1))
	middle := serve(t, Handler(newGate(t, roomy(), nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := http.NewRequestWithContext(r.Context(), http.MethodGet, behind.url, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := calls.RoundTrip(call)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		io.Copy(w, resp.Body)
	})))
	if _, body := send(t, base(t, 1), request(t, middle.url, wire.Tags{Token: token})); body != token.String() {
		t.Errorf("the server behind is shown %q, expected %q", body, token)
	}
	if _, body := send(t, base(t, 1), request(t, middle.url, wire.Tags{Budget: time.Minute})); body != (wire.Token{}).String() {
		t.Errorf("without a token the server behind is shown %q", body)
	}
}
