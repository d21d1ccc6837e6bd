package fastrpc

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate"
)

// What a handler returns in place of the room that it has, its request or something that it keeps, is not written to by the
// answers of later calls.
func TestHandlersReturnWhatIsTheirs(t *testing.T) {
	kept := []byte("kept by the handler")
	for _, gated := range []bool{false, true} {
		cfg := ServerConfig{}
		if gated {
			cfg.Gate = newGate(t, spillgate.Config{})
		}
		_, address := serve(t, cfg, func(s *Server) {
			same := func(_ context.Context, in, _ []byte) ([]byte, error) { return in, nil }
			ours := func(context.Context, []byte, []byte) ([]byte, error) { return kept, nil }
			twice := func(_ context.Context, in, out []byte) ([]byte, error) {
				for range 2 { // where out is the request, the second time finds something else
					for _, b := range in {
						out = append(out, b+1)
					}
				}
				return out, nil
			}
			s.Handle("same", same)
			s.HandleInline("same inline", same)
			s.Handle("ours", ours)
			s.HandleInline("ours inline", ours)
			s.Handle("twice", twice)
			s.HandleInline("twice inline", twice)
		})
		c := dial(t, ClientConfig{}, address)
		for range 100 {
			for _, tt := range []struct{ method, in, want string }{
				{"same", "abcdefgh", "abcdefgh"}, {"twice", "abc", "bcdbcd"}, {"ours", "", string(kept)}, {"twice", "abc", "bcdbcd"}, {"ours", "", string(kept)},
				{"same inline", "abcdefgh", "abcdefgh"}, {"twice inline", "abc", "bcdbcd"}, {"ours inline", "", string(kept)}, {"twice inline", "abc", "bcdbcd"},
				{"ours inline", "", "kept by the handler"},
			} {
				if got, err := c.Method(tt.method).Call(within(t), []byte(tt.in), nil); err != nil || string(got) != tt.want {
					t.Fatalf("%s of %q: %q, %v; expected %q", tt.method, tt.in, got, err, tt.want)
				}
			}
		}
	}
	if string(kept) != "kept by the handler" {
		t.Errorf("what the handler keeps is %q now", kept)
	}
}
