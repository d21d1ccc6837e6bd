package fastrpc

import (
	"context"
	"encoding"
	"sync"
)

// Message is what a pointer to the type T of a message has: T encodes itself behind what is
// there, and decodes itself from bytes that it must not keep.
type Message[T any] interface {
	*T
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

// Typed returns a Handler that decodes its request and encodes what h puts into the answer,
// which begins as its zero value. A request that cannot be decoded is an error of the call.
func Typed[In, Out any, PIn Message[In], POut Message[Out]](h func(ctx context.Context, in *In, out *Out) error) Handler {
	return func(ctx context.Context, in, out []byte) ([]byte, error) {
		var request In
		if err := PIn(&request).UnmarshalBinary(in); err != nil {
			return out, err
		}
		var answer Out
		if err := h(ctx, &request, &answer); err != nil {
			return out, err
		}
		return POut(&answer).AppendBinary(out)
	}
}

// TypedMethod is a Method with types for its messages.
type TypedMethod[In, Out any, PIn Message[In], POut Message[Out]] struct {
	method  *Method
	buffers sync.Pool // of *[2][]byte
}

// MethodOf returns the method of a name with types for its messages.
func MethodOf[In, Out any, PIn Message[In], POut Message[Out]](c *Client, name string) *TypedMethod[In, Out, PIn, POut] {
	return &TypedMethod[In, Out, PIn, POut]{method: c.Method(name)}
}

// Call sends in and decodes the answer into out: see Method.Call.
func (m *TypedMethod[In, Out, PIn, POut]) Call(ctx context.Context, in *In, out *Out) error {
	b, ok := m.buffers.Get().(*[2][]byte)
	if !ok {
		b = new([2][]byte)
	}
	defer m.buffers.Put(b)
	request, err := PIn(in).AppendBinary(b[0][:0])
	if err != nil {
		return err
	}
	b[0] = request
	answer, err := m.method.Call(ctx, request, b[1][:0])
	if err != nil {
		return err
	}
	b[1] = answer
	return POut(out).UnmarshalBinary(answer)
}
