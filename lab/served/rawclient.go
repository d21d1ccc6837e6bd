package served

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spillgate/spillgate/internal/wire"
)

// rawClient is one gRPC connection without goroutines and almost without memory,
// so that 10,000 of them fit beside a server that is measured: it speaks HTTP/2 in
// frames, and reads only while it waits for a reply.
type rawClient struct {
	conn   net.Conn
	stream uint32 // of the next request
	served int
}

// Header blocks are the same for all clients and all requests: they leave the
// tables of the connection alone. Every request says that it obeys credits.
var (
	creditBlock  = headerBlock(crowdMethod)
	controlBlock = headerBlock("/spillgate.v1.Control/Credits")
	emptyMessage = []byte{0, 0, 0, 0, 0}
	demandOfOne  = controlMessage()
)

// controlMessage is a demand of one request, as a message of gRPC: the tags in a
// wrapper whose field 1 they are.
func controlMessage() []byte {
	tags := wire.Tags{Credits: true, Demand: 1}.Append(nil)
	n := byte(len(tags) + 2) // a handful of bytes: both lengths take one byte
	return append([]byte{0, 0, 0, 0, n, 1<<3 | 2, byte(len(tags))}, tags...)
}

func headerBlock(path string) []byte {
	tags := wire.Tags{Credits: true}.Append(nil)
	fields := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path},
		{Name: ":authority", Value: "localhost"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
		{Name: wire.MetadataKey, Value: base64.RawStdEncoding.EncodeToString(tags)}}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSizeLimit(0)
	for _, f := range fields {
		f.Sensitive = true // keeps it out of the dynamic table
		_ = enc.WriteField(f)
	}
	return block.Bytes()
}

// dialRaw connects and waits for the server's settings.
func dialRaw(addr string) (*rawClient, error) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c := &rawClient{conn: conn, stream: 1}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	// Without a table of header fields every block can be read by itself.
	_ = http2.NewFramer(&out, nil).WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	if _, err := conn.Write(out.Bytes()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// rawBuffers is what a goroutine shares among the clients it works for.
type rawBuffers struct {
	out    bytes.Buffer
	in     bufio.Reader
	frames *http2.Framer // from in, to out: nothing of it belongs to a connection
	header *hpack.Decoder
	status string // of the last reply
}

func newRawBuffers() *rawBuffers {
	b := &rawBuffers{}
	b.frames = http2.NewFramer(&b.out, &b.in)
	b.frames.SetReuseFrames()
	b.header = hpack.NewDecoder(0, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			b.status = f.Value
		}
	})
	return b
}

// call makes one unary call, waits for its end and returns its grpc-status.
func (c *rawClient) call(b *rawBuffers, block []byte) (status string, err error) {
	b.out.Reset()
	w := b.frames
	id := c.stream
	c.stream += 2
	if err := w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
		return "", err
	}
	if err := w.WriteData(id, true, emptyMessage); err != nil {
		return "", err
	}
	if c.served++; c.served%1000 == 0 { // each reply takes 5 of 65,535 bytes of the window
		_ = w.WriteWindowUpdate(0, 5000)
	}
	b.status = ""
	err = c.exchange(b, id)
	return b.status, err
}

// openControl opens the control stream and reports a demand on it. The stream
// stays open, if the server lets it; what the server says is read with the next
// reply.
func (c *rawClient) openControl(b *rawBuffers) error {
	b.out.Reset()
	w := b.frames
	id := c.stream
	c.stream += 2
	if err := w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: controlBlock, EndHeaders: true}); err != nil {
		return err
	}
	if err := w.WriteData(id, false, demandOfOne); err != nil {
		return err
	}
	_, err := c.conn.Write(b.out.Bytes())
	return err
}

// exchange sends what is in b.out and reads frames until stream id ends.
func (c *rawClient) exchange(b *rawBuffers, id uint32) error {
	_ = c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.conn.Write(b.out.Bytes()); err != nil {
		return err
	}
	b.in.Reset(c.conn)
	b.out.Reset()
	r := b.frames
	for ended := false; ; {
		f, err := r.ReadFrame()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = r.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = r.WritePing(true, f.Data)
			}
		case *http2.HeadersFrame:
			if f.StreamID == id {
				ended = f.StreamEnded()
				if _, err := b.header.Write(f.HeaderBlockFragment()); err != nil {
					return fmt.Errorf("the reply's headers: %w", err)
				}
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return fmt.Errorf("the server reset the stream: %v", f.ErrCode)
			}
		case *http2.GoAwayFrame:
			return fmt.Errorf("the server says good-bye: %v", f.ErrCode)
		}
		if b.out.Len() > 0 {
			if _, err := c.conn.Write(b.out.Bytes()); err != nil {
				return err
			}
			b.out.Reset()
		}
		// What the server sends after the end of the stream must not be lost with
		// the buffer; what is cut in two here is read on with the next reply.
		if ended && b.in.Buffered() == 0 {
			return nil
		}
	}
}
