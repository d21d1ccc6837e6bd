package bed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/world"
)

// manyConnections is the number of connections of a world from which on those clients are
// thin that neither keep credits, nor retry, nor give up, nor have a deadline.
const manyConnections = 5000

// many reports whether a world has many connections.
func (p *plan) many() bool {
	all := 0
	for i := range p.Clients {
		all += p.Clients[i].Clients * p.Clients[i].Connections
	}
	return all >= manyConnections
}

// evenStacks makes every goroutine of a service start with the smallest stack. Go would take
// the mean of those in use, which falls on either side of a power of two with the number
// of connections and with what else the process does; and that of a call grows once or
// twice by it, which is 2 or 3 µs.
const evenStacks = "GODEBUG=adaptivestackstart=0"

// thin reports whether the callers of a group are thin.
func (g *group) thin() bool {
	return g.plan.many() && g.Kind != world.Credits && g.Deadline < 0 && g.GiveUp == 0 && g.Retry.Attempts == 1 && g.policy.over == overGRPC
}

// thinCaller is one gRPC connection without goroutines and almost without memory, so that
// tens of thousands of them fit beside a server: it speaks HTTP/2 in frames, reads only
// while it waits for an answer, and makes one call at a time.
type thinCaller struct {
	service string
	tags    string
	buffers *sync.Pool // of *thinBuffers
	mu      sync.Mutex
	conn    net.Conn
	stream  uint32 // of the next request
	unread  uint32 // bytes of answers that the connection's window was not given back
}

func newThinCaller(service string, addrs []string, c connection) (*thinCaller, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	conn, err := c.dial(ctx, "tcp", addrs[c.number%len(addrs)])
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	// Without a table of header fields every block can be read by itself.
	_ = http2.NewFramer(&out, nil).WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	if _, err := conn.Write(out.Bytes()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &thinCaller{service: service, tags: c.strangersTags(), buffers: c.thin, conn: conn, stream: 1}, nil
}

func (t *thinCaller) connect(context.Context) error { return nil }
func (t *thinCaller) close()                        { _ = t.conn.Close() }

// header is the block of a request. It is the same for all requests and leaves the tables of
// the connection alone.
func (t *thinCaller) header(method string) []byte {
	fields := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: rpcMethod(t.service, method)},
		{Name: ":authority", Value: "localhost"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}
	if t.tags != "" {
		fields = append(fields, hpack.HeaderField{Name: wire.MetadataKey, Value: base64.RawStdEncoding.EncodeToString([]byte(t.tags))})
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSizeLimit(0)
	for _, f := range fields {
		f.Sensitive = true // keeps it out of the dynamic table
		_ = enc.WriteField(f)
	}
	return block.Bytes()
}

// message is a number as gRPC sends a wrapper of one.
func message(id uint64) []byte {
	number := binary.AppendUvarint([]byte{1 << 3}, id)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(number))), number...)
}

// thinBuffers are what a call needs of memory, shared by the connections of a group.
type thinBuffers struct {
	out    bytes.Buffer
	in     bufio.Reader
	frames *http2.Framer // from in, to out: nothing of it belongs to a connection
	header *hpack.Decoder
	status string // of the last answer
}

func newThinBuffers() any {
	b := &thinBuffers{}
	b.frames = http2.NewFramer(&b.out, &b.in)
	b.frames.SetReuseFrames()
	b.header = hpack.NewDecoder(0, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			b.status = f.Value
		}
	})
	return b
}

// longestThinCall is how long a call may take.
const longestThinCall = 20 * time.Second

func (t *thinCaller) call(ctx context.Context, method string, id uint64) error {
	b := t.buffers.Get().(*thinBuffers)
	defer t.buffers.Put(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	b.out.Reset()
	stream := t.stream
	t.stream += 2
	if err := b.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: t.header(method), EndHeaders: true}); err != nil {
		return err
	}
	if err := b.frames.WriteData(stream, true, message(id)); err != nil {
		return err
	}
	countSent(ctx)
	b.status = ""
	if err := t.exchange(b, stream); err != nil {
		return err
	}
	code, err := strconv.ParseUint(b.status, 10, 32)
	if err != nil {
		return fmt.Errorf("bed: the status is %q, expected a number", b.status)
	}
	return status.Error(codes.Code(code), "refused")
}

// giveBack gives back what the data of an answer take of the windows, 65,535 bytes of the
// connection and of each stream, before they are used up.
func (t *thinCaller) giveBack(frames *http2.Framer, f *http2.DataFrame) {
	const some = 16 << 10
	if t.unread += f.Length; t.unread >= some {
		_ = frames.WriteWindowUpdate(0, t.unread) // into a buffer
		t.unread = 0
	}
	if f.Length > 0 && !f.StreamEnded() {
		_ = frames.WriteWindowUpdate(f.StreamID, f.Length)
	}
}

// exchange sends what is in b.out and reads frames until a stream ends.
func (t *thinCaller) exchange(b *thinBuffers, stream uint32) error {
	_ = t.conn.SetDeadline(time.Now().Add(longestThinCall))
	b.in.Reset(t.conn)
	for ended := false; ; {
		if b.out.Len() > 0 {
			if _, err := t.conn.Write(b.out.Bytes()); err != nil {
				return err
			}
			b.out.Reset()
		}
		// What the server sends after the end of the stream must not be lost with
		// the buffer; what is cut in two here is read on with the next answer.
		if ended && b.in.Buffered() == 0 {
			return nil
		}
		f, err := b.frames.ReadFrame()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = b.frames.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = b.frames.WritePing(true, f.Data)
			}
		case *http2.DataFrame:
			t.giveBack(b.frames, f)
		case *http2.HeadersFrame:
			if f.StreamID == stream {
				ended = f.StreamEnded()
				if _, err := b.header.Write(f.HeaderBlockFragment()); err != nil {
					return fmt.Errorf("bed: the answer's headers: %w", err)
				}
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return fmt.Errorf("bed: the server reset the stream: %v", f.ErrCode)
			}
		case *http2.GoAwayFrame:
			return fmt.Errorf("bed: the server says good-bye: %v", f.ErrCode)
		}
	}
}
