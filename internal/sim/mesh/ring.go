package mesh

// ring is a queue, first in, first out. The zero ring is empty.
type ring[T any] struct {
	buf  []T
	head int
}

func (r *ring[T]) len() int { return len(r.buf) - r.head }

func (r *ring[T]) push(v T) { r.buf = append(r.buf, v) }

func (r *ring[T]) pop() T {
	v := r.buf[r.head]
	r.head++
	if r.head > 64 && r.head*2 > len(r.buf) {
		n := copy(r.buf, r.buf[r.head:])
		clear(r.buf[n:])
		r.buf, r.head = r.buf[:n], 0
	} else if r.head == len(r.buf) {
		r.buf, r.head = r.buf[:0], 0
	}
	return v
}
