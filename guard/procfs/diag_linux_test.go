package procfs

import (
	"os"
	"testing"
)

func FuzzParseDiag(f *testing.F) {
	f.Add(diagQuestion(2, 80), 80)
	f.Add(make([]byte, headerBytes+diagMessage), 0)
	f.Fuzz(func(t *testing.T, text []byte, port int) {
		_, _ = parseDiag(text, func(message []byte) {
			if p, ok := parseConnection(message); ok && (p.Port < 0 || p.Port > 0xffff || p.Waited < 0) {
				t.Fatalf("%+v", p)
			}
			if remote, ok := parseUnreadConnection(message, port); ok && (remote <= 0 || remote > 0xffff) {
				t.Fatalf("a client at port %d", remote)
			}
		})
	})
}

// BenchmarkUnread compares what a look costs with what it would cost to read /proc/net/tcp.
func BenchmarkUnread(b *testing.B) {
	b.Run("sock_diag", func(b *testing.B) {
		for b.Loop() {
			if _, err := diagUnread(nil, 1); err != nil {
				b.Skip(err)
			}
		}
	})
	b.Run("proc", func(b *testing.B) {
		for b.Loop() {
			text, err := os.ReadFile("/proc/self/net/tcp")
			if err != nil {
				b.Skip(err)
			}
			parseUnread(nil, text, 1)
		}
	})
}
