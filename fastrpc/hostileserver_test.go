package fastrpc

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
)

// A server that breaks the format loses the connection and is told why; the calls on it fail, and
// the client goes on.
func TestServersThatBreakTheFormat(t *testing.T) {
	for name, say := range map[string][]byte{
		"a stream that is not in flight": (&response{stream: 9 << 16}).append(nil, nil),
		"a lane beyond":                  (&response{stream: MaxLanes + 1}).append(nil, nil),
		"a grant without its base":       (&response{stream: 1 << 16, granted: true}).append(nil, nil),
		"a status":                       (&response{stream: 1 << 16, status: 77}).append(nil, nil),
		"a reply":                        (&response{stream: 1 << 16, reply: []byte{1, 2, 3}}).append(nil, nil),
		"a grant frame without a grant":  appendText(nil, kindGrant, wire.Reply{}.Append(nil)),
		"a kind of clients":              appendShort(nil, kindCancel, 1),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			told := make(chan []byte, 1)
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = l.Close() // the client finds nobody when it comes back
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(patience))
				_, _ = io.ReadFull(conn, make([]byte, prefaceLen))
				_, _ = conn.Write(preface{lowest: 1, highest: 1, credits: true, frame: leastFrame, lanes: 4}.append(nil))
				in := inbox{conn: conn, limit: leastFrame}
				for {
					f, err := in.next()
					switch {
					case err != nil:
						told <- nil
						return
					case f[0] == kindRequest:
						_, _ = conn.Write(say)
					case f[0] == kindClose:
						told <- f
						return
					}
				}
			}()
			c := dial(t, ClientConfig{}, l.Addr().String())
			if _, err := c.Method("echo").Call(within(t), nil, nil); !errors.Is(err, ErrLost) || !errors.Is(err, ErrProtocol) {
				t.Errorf("the call returned %v", err)
			}
			if len(<-told) == 0 {
				t.Error("the server was not told why")
			}
			if _, err := c.Method("echo").Call(within(t), nil, nil); !errors.Is(err, ErrLost) {
				t.Errorf("the next call returned %v", err)
			}
		})
	}
}
