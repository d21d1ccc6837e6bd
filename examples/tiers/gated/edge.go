package gated

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/telemetry"
)

// retries has grpc try a call again that did not reach the store.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// Edge is the service that users call, the middle tier: it asks the store for each order.
func Edge(address, store string) (*http.Server, error) {
	gate := spillgate.MustNew(100 * time.Millisecond)
	telemetry.MustRegister(gate, "edge")
	conn, err := grpc.NewClient(store, append(grpcgate.DialOptions(grpcgate.WithServiceConfig(retries), grpcgate.WithCalls(gate.Calls())), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		order := new(wrapperspb.StringValue)
		if err := conn.Invoke(r.Context(), "/shop.Store/Order", wrapperspb.String(r.URL.Query().Get("id")), order); err != nil {
			if !httpgate.RefuseBelow(w, r, err) {
				http.Error(w, "the store failed", http.StatusBadGateway)
			}
			return
		}
		_, _ = w.Write([]byte(order.Value))
	})
	server := &http.Server{Addr: address, Handler: mux}
	httpgate.Install(gate, server, httpgate.ExemptPaths("/metrics"))
	server.RegisterOnShutdown(func() { conn.Close() })
	return server, nil
}
