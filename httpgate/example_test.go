package httpgate_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/httpgate"
)

// A server takes one call; a client takes a transport.
func Example() {
	gate := spillgate.MustNew(100 * time.Millisecond)
	defer gate.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "three orders") })

	server := httptest.NewUnstartedServer(mux)
	httpgate.Install(gate, server.Config)
	server.Start()
	defer server.Close()

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: httpgate.Transport(transport)}
	response, err := client.Get(server.URL + "/orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(body), err)
	// Output:
	// 200 three orders <nil>
}

// A refused request gets a status, Retry-After and a problem that says why.
func ExampleHandler() {
	gate, err := spillgate.New(100 * time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	handler := httpgate.Handler(gate, http.NotFoundHandler(),
		httpgate.Objectives(httpgate.ByPath(map[string]time.Duration{"/reports/": 5 * time.Second})),
		httpgate.Trust(httpgate.Networks(netip.MustParsePrefix("10.0.0.0/8"))), // whose class and workflow count
	)
	gate.Drain() // the process is about to end

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/orders", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Retry-After") != "")
	// Output:
	// 503 application/problem+json true
}
