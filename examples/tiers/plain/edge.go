package plain

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// retries has grpc try a call again that did not reach the store.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// Edge is the service that users call, the middle tier: it asks the store for each order.
func Edge(address, store string) (*http.Server, error) {
	conn, err := grpc.NewClient(store, grpc.WithDefaultServiceConfig(retries), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		order := new(wrapperspb.StringValue)
		if err := conn.Invoke(r.Context(), "/shop.Store/Order", wrapperspb.String(r.URL.Query().Get("id")), order); err != nil {
			http.Error(w, "the store failed", http.StatusBadGateway)
			return
		}
		_, _ = w.Write([]byte(order.Value))
	})
	server := &http.Server{Addr: address, Handler: mux}
	server.RegisterOnShutdown(func() { conn.Close() })
	return server, nil
}
