package etcd

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/spillgate/spillgate/guard/etcd/keyrange"
)

// The getters of etcd's messages that are read.
type (
	ranged interface {
		GetKey() []byte
		GetRangeEnd() []byte
	}
	counted interface{ GetCount() int64 }
	// marshaler is a message of etcd before 3.7, which is none to package proto.
	marshaler interface{ Marshal() ([]byte, error) }
)

// buffers lends the memory into which transactions are written to be read.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestBuffer is the most bytes of a buffer that is kept.
const largestBuffer = 64 << 10

// wide reports whether the widest range of a request is wide.
func (g *Guard) wide(method string, req any) bool {
	w, _ := g.look(method, req)
	return w.wide()
}

// look returns the width of the widest range of a request, and whether it is not known to read only.
func (g *Guard) look(method string, req any) (most width, writes bool) {
	most, writes = width(1), true
	look := func(r keyrange.Range) bool {
		most = most.or(g.widths.of(r))
		return true
	}
	switch method {
	case keyrange.MethodRange, keyrange.MethodDeleteRange:
		writes = method != keyrange.MethodRange
		if m, ok := req.(ranged); ok {
			if r := (keyrange.Range{Key: m.GetKey(), End: m.GetRangeEnd()}); !r.Single() {
				look(r)
			}
		}
	case keyrange.MethodTxn:
		b := buffers.Get().(*[]byte)
		if message, ok := bytesOf((*b)[:0], req); ok {
			keyrange.Each(method, message, look)
			writes = keyrange.Writes(message)
			if cap(message) <= largestBuffer {
				*b = message
			}
		}
		buffers.Put(b)
	}
	return most, writes
}

// bytesOf appends a message to buf.
func bytesOf(buf []byte, req any) ([]byte, bool) {
	switch m := req.(type) {
	case proto.Message:
		b, err := proto.MarshalOptions{}.MarshalAppend(buf, m)
		return b, err == nil
	case marshaler:
		b, err := m.Marshal()
		return b, err == nil
	}
	return nil, false
}

// learn remembers how many keys a range had, which its answer says. etcd from 3.7 may
// count no further than the limit; then less is known than there is, and an earlier
// answer that said more stays.
func (g *Guard) learn(method string, req, resp any) {
	if method != keyrange.MethodRange {
		return
	}
	m, ok := req.(ranged)
	answer, told := resp.(counted)
	if !ok || !told {
		return
	}
	if r := (keyrange.Range{Key: m.GetKey(), End: m.GetRangeEnd()}); !r.Single() {
		limit, _ := req.(interface{ GetLimit() int64 })
		g.widths.learn(r, answer.GetCount(), limit != nil && limit.GetLimit() > 0)
	}
}
