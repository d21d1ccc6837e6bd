package grpcgate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// A client that knows nothing of Spillgate and retries by grpc's own policy is known by
// its attempts.
func TestAttemptsOfPlainClients(t *testing.T) {
	var mu sync.Mutex
	var seen []int
	s := serve(t, newGate(t, admission.Config{}), &echo{handle: func(ctx context.Context, req string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, live.TagsFrom(ctx).Attempt)
		return "", status.Error(codes.Unavailable, "again")
	}}, nil)
	conn := dial(t, s.addr, grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"retryPolicy":
		{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.002s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`))
	if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, []int{0, 1, 2, 3}) {
		t.Errorf("attempts %v, expected 0 to 3", seen)
	}
}

// What says which attempt it is comes from outside: the largest that is said counts, and
// what cannot be read says nothing.
func TestAttemptsAreUntrusted(t *testing.T) {
	for _, tt := range []struct {
		tags int
		head string
		want int
	}{
		{0, "", 0}, {0, "1", 1}, {2, "1", 2}, {1, "3", 3}, {0, "255", 255}, {0, "256", 255}, {0, "2147483647", 255},
		{0, "-1", 0}, {0, "x", 0}, {0, "4294967296", 0}, {3, "x", 3}, {0, "1,1", 0},
	} {
		md := metadata.MD{}
		if tt.tags > 0 {
			md.Set(wire.MetadataKey, string(wire.Tags{Attempt: tt.tags}.Append(nil)))
		}
		if tt.head != "" {
			md.Set(attemptsKey, strings.Split(tt.head, ",")...)
		}
		var malformed atomic.Int64
		if got := tagsOf(md, nil, &malformed).Attempt; got != tt.want || malformed.Load() != 0 {
			t.Errorf("tags say %d, grpc %q: attempt %d, expected %d; %d malformed", tt.tags, tt.head, got, tt.want, malformed.Load())
		}
	}
}
