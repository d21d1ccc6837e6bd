package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
)

// askGRPC asks the health service of the upstream, by the connections that requests take.
func (u *upstream) askGRPC(ctx context.Context, service string) error {
	message, err := proto.Marshal(&grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	at := *u.url
	at.Path = grpc_health_v1.Health_Check_FullMethodName
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(append(frame, message...)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	r.Header.Set("User-Agent", "spillgate-check")
	resp, err := u.base.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, checkBody))
	if err != nil {
		return err
	}
	status := resp.Trailer.Get("Grpc-Status")
	if status == "" {
		status = resp.Header.Get("Grpc-Status")
	}
	if resp.StatusCode != http.StatusOK || status != "0" {
		return fmt.Errorf("it answered %d with the gRPC status %q", resp.StatusCode, status)
	}
	var reply grpc_health_v1.HealthCheckResponse
	if len(body) < len(frame) || body[0] != 0 || proto.Unmarshal(body[len(frame):], &reply) != nil {
		return errors.New("its answer is no message of grpc.health.v1")
	}
	if reply.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("it is %v", reply.Status)
	}
	return nil
}
