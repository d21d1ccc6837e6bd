package credit

import (
	"container/heap"

	"github.com/spillgate/spillgate/internal/mono"
)

// pickers is the number of servers above which a wallet keeps them in groups. Looking at
// fewer one by one is as fast.
const pickers = 32

// groups hold the servers of a wallet by how much each has free: all in a group gain the
// same score with every pick, so their order among each other stands still.
type groups struct {
	all   []*group
	spare []*group
	due   dues // servers that have something free once a time has passed
}

// group is a heap of servers by score, the highest first, and by age. The score of a
// server in it is by score higher than the server's own.
type group struct {
	free, score int
	servers     []*Window
}

func (g *group) Len() int { return len(g.servers) }
func (g *group) Less(i, j int) bool {
	a, b := g.servers[i], g.servers[j]
	return a.score > b.score || a.score == b.score && a.number < b.number
}
func (g *group) Swap(i, j int) {
	g.servers[i], g.servers[j] = g.servers[j], g.servers[i]
	g.servers[i].place, g.servers[j].place = i, j
}
func (g *group) Push(x any) {
	w := x.(*Window)
	w.place = len(g.servers)
	g.servers = append(g.servers, w)
}
func (g *group) Pop() any {
	last := len(g.servers) - 1
	w := g.servers[last]
	g.servers[last] = nil
	g.servers = g.servers[:last]
	return w
}

// dues is a heap of servers by the instant from which one request may go unasked.
type dues []*Window

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].dueAt < d[j].dueAt }
func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}
func (d *dues) Push(x any) {
	w := x.(*Window)
	w.place = len(*d)
	*d = append(*d, w)
}
func (d *dues) Pop() any {
	last := len(*d) - 1
	w := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return w
}

// groupUp keeps the servers in groups from now on.
func (l *Wallet) groupUp() {
	l.groups = &groups{}
	for _, w := range l.windows {
		l.place(w)
	}
}

// place puts w where it belongs, after something about it changed.
func (l *Wallet) place(w *Window) {
	g := l.groups
	if g == nil {
		return
	}
	g.take(w)
	if w.closed {
		return
	}
	if n := w.Limit() - w.outstanding; n > 0 {
		g.put(w, n)
	} else if w.dueAt = w.UnaskedAt(); w.dueAt != mono.Never {
		w.isDue = true
		heap.Push(&g.due, w)
	}
}

// take takes w out of where it is.
func (g *groups) take(w *Window) {
	switch {
	case w.isDue:
		w.isDue = false
		heap.Remove(&g.due, w.place)
	case w.group != nil:
		from := w.group
		heap.Remove(from, w.place)
		w.score += from.score
		w.group = nil
		if len(from.servers) == 0 {
			g.drop(from)
		}
	}
}

func (g *groups) drop(empty *group) {
	for i, have := range g.all {
		if have == empty {
			last := len(g.all) - 1
			g.all[i], g.all[last] = g.all[last], nil
			g.all = g.all[:last]
			g.spare = append(g.spare, empty)
			return
		}
	}
}

// put puts w, of which n are free, into its group.
func (g *groups) put(w *Window, n int) {
	var to *group
	for _, have := range g.all {
		if have.free == n {
			to = have
			break
		}
	}
	if to == nil {
		if last := len(g.spare) - 1; last >= 0 {
			to, g.spare = g.spare[last], g.spare[:last]
		} else {
			to = &group{}
		}
		to.free, to.score = n, 0
		g.all = append(g.all, to)
	}
	w.score -= to.score
	w.group = to
	heap.Push(to, w)
}

// pick is Wallet.pick in time linear in the number of groups, which is at most that of
// different free windows, and logarithmic in that of servers.
func (g *groups) pick(now mono.Time) *Window {
	for len(g.due) > 0 && g.due[0].dueAt <= now {
		w := g.due[0]
		g.take(w)
		g.put(w, 1)
	}
	var best *Window
	sum, most := 0, 0
	for _, in := range g.all {
		in.score += in.free
		sum += in.free * len(in.servers)
		w := in.servers[0]
		if score := w.score + in.score; best == nil || score > most || score == most && w.number < best.number {
			best, most = w, score
		}
	}
	if best != nil {
		best.score -= sum
		heap.Fix(best.group, best.place)
	}
	return best
}
