package front

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// What strangers send who know what stands in front of them: gRPC, WebSocket and TLS, and Spillgate's own tags.

// many are the bytes of what is as long as a stranger likes.
const many = 1 << 20

// longExtension sends chunks of a byte with an extension of a megabyte.
func (a *Attack) longExtension(ctx context.Context) error {
	text := a.head("POST", "/work", chunked) + "1;x=" + strings.Repeat("e", many) + "\r\nx\r\n0\r\n\r\n"
	return a.bursts(ctx, func() string { return text }, 1, false)
}

// longTrailers ends a body with a megabyte of fields.
func (a *Attack) longTrailers(ctx context.Context) error {
	text := a.head("POST", "/work", chunked+"Trailer: X-A\r\n") + "1\r\nx\r\n0\r\n" + strings.Repeat("X-A: "+strings.Repeat("t", 1000)+"\r\n", many/1000) + "\r\n"
	return a.bursts(ctx, func() string { return text }, 1, false)
}

// bodiedPipeline sends requests with bodies at once, and reads no answer.
func (a *Attack) bodiedPipeline(ctx context.Context) error {
	one := a.head("POST", "/nothing", "Content-Length: 10000\r\n") + strings.Repeat("b", 10_000)
	return a.bursts(ctx, func() string { return strings.Repeat(one, 100) }, forever, false)
}

// expectAndSend asks whether it may send a body and sends another request in its place.
func (a *Attack) expectAndSend(ctx context.Context) error {
	return a.bursts(ctx, func() string {
		return a.head("POST", "/nothing", "Expect: 100-continue\r\nContent-Length: 100000\r\n") + a.head("GET", "/nothing", "")
	}, 5, false)
}

// talks has a connection upgraded and sends pings of a WebSocket for ever, of which the server reads all.
func (a *Attack) talks(ctx context.Context) error {
	ping := string([]byte{0x89, 0x80, 1, 2, 3, 4})
	return a.bursts(ctx, begun(a.head("GET", "/upgrade", "Connection: Upgrade\r\nUpgrade: nothing\r\n"), strings.Repeat(ping, 200)), forever, false)
}

// halfUpgrade asks to be upgraded, by a server that does not, and sends frames all the same.
func (a *Attack) halfUpgrade(ctx context.Context) error {
	return a.bursts(ctx, func() string {
		return a.head("GET", "/nothing", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n") + strings.Repeat("\x89\x80\x01\x02\x03\x04", 200)
	}, 1, false)
}

// churn connects, asks for nothing and is gone, twenty times after each pause.
func (a *Attack) churn(ctx context.Context) error {
	go a.paced(ctx, func() error {
		for range 20 {
			if c, err := a.dial(ctx); err == nil {
				_ = c.Close()
			}
		}
		return ctx.Err()
	})
	return nil
}

// notTLS begins a handshake at a listener that speaks none, and sends the rest a byte at a time.
func (a *Attack) notTLS(ctx context.Context) error {
	hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}
	return a.bursts(ctx, begun(string(hello), "\x00"), 5, false)
}

// forged asks with tags that say something else each time: another client, a deadline that is over or for ever, demand
// for all credits, the first rank.
func (a *Attack) forged(ctx context.Context) error {
	return a.bursts(ctx, func() string {
		t := wire.Tags{
			Credits: true, Asks: true, Client: rand.Uint64() | 1, Demand: math.MaxInt32, Class: work.Interactive, Attempt: rand.IntN(1000),
			Process: rand.Uint64() | 1, Claim: rand.ExpFloat64() * 1e6, Workflow: "w" + string(rune('a'+rand.IntN(26))), Waited: time.Duration(rand.Int64N(int64(time.Hour))),
		}
		if t.Budget = time.Nanosecond; rand.IntN(2) == 0 {
			t.Budget = wire.MaxDuration
		}
		return a.head("GET", "/nothing", wire.HeaderName+": "+wire.Header(t.Append(nil))+"\r\nBaggage: tenant=t"+string(rune('a'+rand.IntN(26)))+"\r\n")
	}, 10, false)
}

// tableSizes changes the size of the table for answers, up to all that there is, with requests between.
func (a *Attack) tableSizes(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for n := range uint32(20) {
			_ = f.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: (n % 2) * math.MaxUint32})
			f.ask("GET", "/nothing", true)
		}
	})
}

// flipsWindow changes the window of all streams of a connection again and again.
func (a *Attack) flipsWindow(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		if f.stream == 0 {
			for range streams {
				f.ask("GET", "/nothing", true)
			}
		}
		for n := range uint32(perBurst) {
			_ = f.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: (n % 2) * 1})
		}
	})
}

// tinyWindows asks for a large answer and takes it a byte a frame.
func (a *Attack) tinyWindows(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		if f.stream == 0 {
			f.ask("GET", "/large", true)
		}
		for range perBurst {
			_ = f.framer.WriteWindowUpdate(f.stream, 1)
		}
	})
}

// http2Trailers ends bodies with trailers of as much as a header may have.
func (a *Attack) http2Trailers(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for range 5 {
			f.ask("POST", "/nothing", false)
			_ = f.framer.WriteData(f.stream, false, []byte("x"))
			f.block.Reset()
			for range 15 {
				_ = f.coder.WriteField(hpack.HeaderField{Name: "x-a", Value: strings.Repeat("t", 1000)})
			}
			_ = f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: f.block.Bytes(), EndStream: true, EndHeaders: true})
		}
	})
}

// mostStreams is how many requests the proxy takes on one connection at a time, by default.
const mostStreams = 250

// halfBodies begins as many requests as a connection takes, each with the first part of a body, at once, and says
// nothing more.
func (a *Attack) halfBodies(ctx context.Context) error {
	f, err := a.speak(ctx)
	if err != nil {
		return err
	}
	for range mostStreams {
		f.ask("POST", "/nothing", false)
		_ = f.framer.WriteData(f.stream, false, make([]byte, 3000))
	}
	return f.send()
}

// grpc are the fields of a call.
var grpc = []hpack.HeaderField{{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}

// grpcLength sends calls whose message is four gigabytes long by its length, and ends after a byte.
func (a *Attack) grpcLength(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for range 10 {
			f.ask("POST", "/nothing", false, grpc...)
			_ = f.framer.WriteData(f.stream, true, binary.BigEndian.AppendUint32([]byte{0}, math.MaxUint32))
		}
	})
}

// grpcBomb sends calls with a message that says that it is compressed, of zeros.
func (a *Attack) grpcBomb(ctx context.Context) error {
	message := append([]byte{1, 0, 0, 0x20, 0}, make([]byte, 0x2000)...)
	return a.flood(ctx, func(f *frames) {
		for range 5 {
			f.ask("POST", "/nothing", false, append([]hpack.HeaderField{{Name: "grpc-encoding", Value: "gzip"}}, grpc...)...)
			_ = f.framer.WriteData(f.stream, true, message)
		}
	})
}

// grpcDeadlines sends calls with deadlines that are over, for ever, or none, with tags that change each time.
func (a *Attack) grpcDeadlines(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for n := range 10 {
			timeout := []string{"1n", "99999999H", "x", "0S"}[n%4]
			f.ask("POST", "/nothing", true, append([]hpack.HeaderField{{Name: "grpc-timeout", Value: timeout}, {Name: "grpc-previous-rpc-attempts", Value: "4294967295"}}, grpc...)...)
		}
	})
}

// slowHandshake begins TLS and sends a byte of its hello after each pause.
func (a *Attack) slowHandshake(ctx context.Context) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	n := 0
	hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}
	go a.paced(ctx, func() error {
		b := byte(0)
		if n < len(hello) {
			b = hello[n]
		}
		n++
		_, err := c.Write([]byte{b})
		return err
	})
	return nil
}

// handshakes makes five whole handshakes after each pause, each of which costs a signature, and leaves.
func (a *Attack) handshakes(ctx context.Context) error {
	go a.paced(ctx, func() error {
		for range 5 {
			c, err := a.dial(ctx)
			if err != nil {
				continue
			}
			t := tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it attacks
			_ = c.SetDeadline(time.Now().Add(time.Second))
			_ = t.Handshake()
			_, _ = io.WriteString(t, "G")
			_ = c.Close()
		}
		return ctx.Err()
	})
	return nil
}
