package front

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Attack is what one process does to the proxy.
type Attack struct {
	Kind        string
	Target      string // host:port
	Connections int
	Pause       time.Duration // between two bytes of a connection
}

// ways are the kinds of attacks: each takes one connection as far as it goes and leaves the
// rest to a goroutine that ends with ctx.
var ways = map[string]func(a *Attack, ctx context.Context) error{
	"slow body":       (*Attack).slowBody,
	"slow long body":  (*Attack).slowLongBody,
	"silent stream":   (*Attack).silentStreams,
	"slow reader":     (*Attack).slowReader,
	"reader":          (*Attack).reader,
	"slowloris":       (*Attack).slowloris,
	"half a header":   (*Attack).halfHeader,
	"idle connection": (*Attack).idle,

	"chunk extensions": (*Attack).chunkExtensions,
	"small chunks":     (*Attack).smallChunks,
	"chunked silence":  (*Attack).chunkedSilence,
	"expect":           (*Attack).expect,
	"trailers":         (*Attack).trailers,
	"pipeline":         (*Attack).pipeline,
	"leaves":           (*Attack).leaves,
	"half closed":      (*Attack).halfClosed,
	"connect":          (*Attack).connect,
	"upgrade":          (*Attack).upgrade,
	"long header":      (*Attack).longHeader,
	"names":            (*Attack).names,

	"settings":     (*Attack).settings,
	"pings":        (*Attack).pings,
	"windows":      (*Attack).windows,
	"priorities":   (*Attack).priorities,
	"empty data":   (*Attack).emptyData,
	"header bomb":  (*Attack).headerBomb,
	"slow header":  (*Attack).slowHeader,
	"last stream":  (*Attack).lastStream,
	"no window":    (*Attack).noWindow,
	"one byte":     (*Attack).oneByte,
	"rapid reset":  (*Attack).rapidReset,
	"unknown kind": (*Attack).garbage,

	"long extension":  (*Attack).longExtension,
	"long trailers":   (*Attack).longTrailers,
	"bodied pipeline": (*Attack).bodiedPipeline,
	"expect and send": (*Attack).expectAndSend,
	"talks":           (*Attack).talks,
	"half upgrade":    (*Attack).halfUpgrade,
	"churn":           (*Attack).churn,
	"not TLS":         (*Attack).notTLS,
	"forged":          (*Attack).forged,
	"table sizes":     (*Attack).tableSizes,
	"flips window":    (*Attack).flipsWindow,
	"tiny windows":    (*Attack).tinyWindows,
	"HTTP/2 trailers": (*Attack).http2Trailers,
	"half bodies":     (*Attack).halfBodies,
	"gRPC length":     (*Attack).grpcLength,
	"gRPC bomb":       (*Attack).grpcBomb,
	"gRPC deadlines":  (*Attack).grpcDeadlines,
	"slow handshake":  (*Attack).slowHandshake,
	"handshakes":      (*Attack).handshakes,
}

// atOnce is how many connections are opened at the same time.
const atOnce = 32

// begin opens all connections and returns when each is where it has to be.
func (a *Attack) begin(ctx context.Context) error {
	way := ways[a.Kind]
	if way == nil {
		return fmt.Errorf("an attack of the kind %q, expected one of: %s", a.Kind, kinds())
	}
	if err := limitFiles(0); err != nil {
		return err
	}
	var wg sync.WaitGroup
	turns, failed := make(chan struct{}, atOnce), make(chan error, a.Connections)
	for range a.Connections {
		turns <- struct{}{}
		wg.Go(func() {
			if err := way(a, ctx); err != nil {
				failed <- err
			}
			<-turns
		})
	}
	wg.Wait()
	if n := len(failed); n > a.Connections/2 {
		return fmt.Errorf("%d of %d connections of the attack %q failed, the first: %w", n, a.Connections, a.Kind, <-failed)
	}
	return nil
}

// dial connects from an address that no normal client has, where the system has one.
func (a *Attack) dial(ctx context.Context) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, KeepAlive: -1}
	c, err := d.DialContext(ctx, "tcp4", a.Target)
	if err != nil {
		d.LocalAddr = nil
		if c, err = d.DialContext(ctx, "tcp4", a.Target); err != nil {
			return nil, err
		}
	}
	_ = c.(*net.TCPConn).SetLinger(0) // so that its port is free again at once
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c.(*net.TCPConn), nil
}

// say connects, sends a text, and then another again and again.
func (a *Attack) say(ctx context.Context, first, again string) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, first); err != nil || again == "" {
		return err
	}
	go a.paced(ctx, func() error {
		_, err := io.WriteString(c, again)
		return err
	})
	return nil
}

// paced calls f after each pause until it fails or ctx ends.
func (a *Attack) paced(ctx context.Context, f func() error) {
	tick := time.NewTicker(a.Pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if f() != nil {
				return
			}
		}
	}
}

func (a *Attack) post(length int) string {
	return fmt.Sprintf("POST /work HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", a.Target, length)
}

// slowBody sends a body that the proxy would gather, a byte at a time.
func (a *Attack) slowBody(ctx context.Context) error { return a.say(ctx, a.post(10_000), "x") }

// slowLongBody sends one that is too long for that.
func (a *Attack) slowLongBody(ctx context.Context) error { return a.say(ctx, a.post(10<<20), "x") }

// slowloris never comes to the end of its header.
func (a *Attack) slowloris(ctx context.Context) error {
	return a.say(ctx, "GET /work HTTP/1.1\r\nHost: "+a.Target+"\r\n", "X-More: 1\r\n")
}

// halfHeader sends some of one and then nothing.
func (a *Attack) halfHeader(ctx context.Context) error { return a.say(ctx, "GET /wo", "") }

func (a *Attack) idle(ctx context.Context) error { return a.say(ctx, "", "") }

// slowReader asks for a large answer and reads it a byte at a time.
func (a *Attack) slowReader(ctx context.Context) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	_ = c.SetReadBuffer(4 << 10)
	if _, err := io.WriteString(c, "GET /large HTTP/1.1\r\nHost: "+a.Target+"\r\n\r\n"); err != nil {
		return err
	}
	go a.paced(ctx, func() error {
		_, err := c.Read(make([]byte, 1))
		return err
	})
	return nil
}

// reader asks for a large answer and reads it.
func (a *Attack) reader(ctx context.Context) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET /large HTTP/1.1\r\nHost: "+a.Target+"\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	return nil
}

// streams is how many silent streams a connection of HTTP/2 has.
const streams = 50

// silentStreams opens a connection with as many requests of which no body ever comes.
func (a *Attack) silentStreams(ctx context.Context) error {
	rt := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return a.dial(ctx) }}
	rt.Protocols.SetUnencryptedHTTP2(true)
	for range streams {
		body, silent := io.Pipe()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.Target+"/work", body)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = silent.Close() })
		go func() {
			if resp, err := rt.RoundTrip(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
	}
	return nil
}

// kinds names all kinds.
func kinds() string {
	var all []string
	for kind := range ways {
		all = append(all, kind)
	}
	return strings.Join(all, ", ")
}
