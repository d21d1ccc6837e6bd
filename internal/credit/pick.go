package credit

import "github.com/spillgate/spillgate/internal/mono"

// offers is what the servers of a wallet have free: each request falls on one of these credits. The places in the line of all
// of them are multiples of the golden ratio, which fill it most evenly, so that servers get requests in proportion to what
// they have free, smoothly and without chance. Always the server with the most would leave one unvisited whose window is
// small because it is not visited.
//
// A server without credits takes any number of requests, and next to it those with credits, or new ones, would get next to
// none. It counts as the one of them with the largest window, and as one credit when it has as many requests.
//
// Sums over neighbours (Fenwick 1994) find the server of a credit, and take a change, in logarithmic time.
type offers struct {
	servers []*Window
	sums    []int // of the i&−i servers up to the i-th, counted from 1
	all     int
	turn    uint32    // the last place, in parts of the line
	due     mono.Time // no server that has nothing free may be asked unasked before
	plains  int       // servers without credits
	most    int       // while there are some: the largest window of the others, 0 if there is no other
}

// goldenTurn is the golden ratio less 1, in parts of 2³².
const goldenTurn = 0x9e3779b9

// open adds a server, which has nothing free yet.
func (o *offers) open(w *Window) {
	w.place = len(o.servers)
	o.servers = append(o.servers, w)
	if len(o.sums) == 0 {
		o.sums = append(o.sums, 0)
	}
	sum, n := 0, w.place+1
	for i := n - 1; i > n-n&-n; i -= i & -i {
		sum += o.sums[i]
	}
	o.sums = append(o.sums, sum)
}

// close takes a server out.
func (o *offers) close(w *Window) {
	o.set(w, 0)
	last := len(o.servers) - 1
	moved := o.servers[last]
	free := moved.offered
	o.set(moved, 0)
	o.servers[last], o.servers, o.sums = nil, o.servers[:last], o.sums[:last+1]
	if moved != w {
		moved.place, o.servers[w.place] = w.place, moved
		o.set(moved, free)
	}
	if w.asPlain {
		o.plains--
	}
	if o.plains > 0 {
		o.level()
	}
}

// set notes that n are free at a server.
func (o *offers) set(w *Window, n int) {
	more := n - w.offered
	if more == 0 {
		return
	}
	w.offered = n
	o.all += more
	for i := w.place + 1; i < len(o.sums); i += i & -i {
		o.sums[i] += more
	}
}

// changed notes what is free at w, after something about it changed.
func (o *offers) changed(w *Window) {
	if w.closed {
		return
	}
	if is := w.state == plain; is != w.asPlain {
		if w.asPlain = is; is {
			o.plains++
		} else {
			o.plains--
		}
		o.level()
	} else if o.plains > 0 && w.Limit() != w.levelled {
		o.level()
	}
	n := o.free(w)
	if o.set(w, n); n == 0 {
		o.due = min(o.due, w.UnaskedAt())
	}
}

// free returns for how many requests w counts.
func (o *offers) free(w *Window) int {
	n := max(w.Limit()-w.outstanding, 0)
	if w.asPlain && o.most > 0 {
		n = min(n, max(o.most-w.outstanding, 1))
	}
	return n
}

// level has the servers without credits count as those with the most.
func (o *offers) level() {
	o.most = 0
	for _, w := range o.servers {
		if w.levelled = w.Limit(); !w.asPlain {
			o.most = max(o.most, w.levelled)
		}
	}
	for _, w := range o.servers {
		if w.asPlain {
			o.set(w, o.free(w))
		}
	}
}

// pick returns the server of the next request, nil if none may be sent.
func (o *offers) pick(now mono.Time) *Window {
	if now >= o.due {
		o.due = mono.Never
		for _, w := range o.servers {
			switch at := w.UnaskedAt(); {
			case w.offered > 0:
			case at > now:
				o.due = min(o.due, at)
			case w.state == unknown && w.outstanding > 0 && w.outstanding < WindowLimit:
				w.first = min(2*max(w.first, w.outstanding), WindowLimit)
				o.changed(w)
			default:
				o.set(w, 1)
			}
		}
	}
	if o.all == 0 {
		return nil
	}
	o.turn += goldenTurn
	left, at := int(uint64(o.turn)*uint64(o.all)>>32), 0
	step := 1
	for 2*step < len(o.sums) {
		step *= 2
	}
	for ; step > 0; step /= 2 {
		if next := at + step; next < len(o.sums) && o.sums[next] <= left {
			at, left = next, left-o.sums[next]
		}
	}
	return o.servers[at]
}
