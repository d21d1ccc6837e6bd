package httpgate

import "sync/atomic"

// mostGathered is how many bytes of bodies a handler has in memory at once, those of requests that
// wait for a slot with their body read included. Requests beyond that ask for a slot first, as those
// with longer bodies do.
const mostGathered = 64 << 20

// memory is what bodies take that are being read, in bytes. A sender may have as much as is left, so one alone has half, and
// there is some for others. A sender counts in a cell of each row and has what the smaller one says: never less than it has,
// and beside a hundred senders with much, fewer than one in a hundred others seems to have as much as one of them. Its
// methods may be called at once from any goroutine.
type memory struct {
	all atomic.Int64
	by  [2][memoryCells]atomic.Int64
}

const memoryCells = 1024

// cells returns where a sender counts.
func (m *memory) cells(by uint64) [2]*atomic.Int64 {
	return [2]*atomic.Int64{&m.by[0][by%memoryCells], &m.by[1][by>>32%memoryCells]}
}

// take takes n bytes for a sender, 0 if it is not known, or reports false if it may have no more.
func (m *memory) take(by uint64, n int64) bool {
	all, own := m.all.Add(n), int64(0)
	if by != 0 {
		cells := m.cells(by)
		own = min(cells[0].Add(n), cells[1].Add(n))
	}
	if all+own <= mostGathered {
		return true
	}
	m.give(by, n)
	return false
}

// has reports whether a sender may take n bytes.
func (m *memory) has(by uint64, n int64) bool {
	all, own := m.all.Load()+n, int64(0)
	if by != 0 {
		cells := m.cells(by)
		own = min(cells[0].Load(), cells[1].Load()) + n
	}
	return all+own <= mostGathered
}

// give gives n bytes of a sender back.
func (m *memory) give(by uint64, n int64) {
	m.all.Add(-n)
	if by != 0 {
		for _, cell := range m.cells(by) {
			cell.Add(-n)
		}
	}
}
