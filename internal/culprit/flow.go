package culprit

// flow moves blame from tasks that wait to those that they wait for. Waiters whose
// edges are known send theirs along the edges. The others put it into a pool, one
// for each resource, which hands it to those that keep the resource. Pools feed
// each other through a small matrix, so a pass costs as much as there are edges,
// not as much as there are tasks and resources.
type flow struct {
	width        int       // of a row: as many as there are resources, or one
	moving, next []float64 // by task and resource of the blame
	live, soon   []bool    // by task: its row of moving, or next, is not zero
	pools        int
	pool, fed    []float64 // by pool and resource of the blame: in this pass, in the next
	full         []bool    // by pool: something is in it in this pass
	sum          []float64 // what passed through each pool
	to           []float64 // by pool and pool: the part that goes on
	keepers      []keeper
	links        []link
}

// keeper is a task that a pool hands blame to, with its part; and with the part that it passes on, as far as it waits. Whoever lets go
// soon is no hog, but what it waits for meanwhile keeps the others waiting all the same.
type keeper struct {
	task, pool   int32
	part, passes float64
}

// link is the part of a pool that goes on along the edges of one waiting keeper.
type link struct {
	pool, task, on int
	part           float64
}

// passes bounds how far blame travels along a chain of waiting tasks. What is
// still moving then stays where it is, as in a cycle.
const passes = 8

// spread fills g.final and g.through.
func (f *flow) spread(v *view, g *graph) {
	f.pools = 2 * v.r
	f.to, f.full = resized(f.to, f.pools*f.pools), resized(f.full, f.pools)
	f.links = f.links[:0]
	g.nobody, g.through = resized(g.nobody, v.r), resized(g.through, v.n*v.r)
	f.find(v, g)
	f.connect(v, g)
	f.begin(v, v.r)
	copy(f.moving, g.direct)
	f.hasten(v, g)
	for i := range f.live {
		f.live[i] = true
	}
	for range passes {
		f.stay(v, g)
		if !f.pass(v, g) {
			break
		}
	}
	for at, rest := range f.moving {
		g.final[at] += rest
	}
	f.settle(v, g)
}

// begin makes room for blame that moves, in rows of a width.
func (f *flow) begin(v *view, width int) {
	f.width = width
	f.moving, f.next = resized(f.moving, v.n*width), resized(f.next, v.n*width)
	f.live, f.soon = resized(f.live, v.n), resized(f.soon, v.n)
	f.pool, f.fed, f.sum = resized(f.pool, f.pools*width), resized(f.fed, f.pools*width), resized(f.sum, f.pools*width)
}

// visits returns how often blame that comes to task i comes there in the mean, this time included: it may come back,
// where one that the task waits for waits for something that the task keeps. What passes through the task is the same blame each time.
func (f *flow) visits(v *view, g *graph, i int) float64 {
	f.begin(v, 1)
	f.moving[i], f.live[i] = 1, true
	visits := 0.0
	for range passes {
		visits += f.moving[i]
		if !f.pass(v, g) {
			break
		}
	}
	for _, k := range f.keepers {
		if int(k.task) == i {
			visits += k.part * f.sum[k.pool]
		}
	}
	return max(visits, 1)
}

// hasten has those that occupy part of a queue pass on all that they are blamed for there, as far as they wait, and keep of it what they
// are to blame for themselves.
func (f *flow) hasten(v *view, g *graph) {
	for _, k := range f.keepers {
		if int(k.pool) >= v.r || k.passes == k.part || g.waits[k.task] == 0 {
			continue
		}
		at := int(k.task)*v.r + int(k.pool)
		f.moving[at] = g.direct[at] / k.part * k.passes
		g.final[at] += (1 - g.waits[k.task]) * (g.direct[at] - f.moving[at])
	}
}

// poolFor returns the pool of a wait of task i for resource on. Shared waits for a
// dammed lock have a pool of their own.
func (f *flow) poolFor(v *view, g *graph, i, on int) int {
	if h := v.holdOf[i*v.r+on]; h > 0 && v.s.Holds[h-1].Shared && v.dammed(g, on) {
		return v.r + on
	}
	return on
}

func (v *view) dammed(g *graph, on int) bool {
	return v.s.Resources[on].Kind == Lock && !g.queued[on].edges && g.queued[on].dammed()
}

// find lists the keepers.
func (f *flow) find(v *view, g *graph) {
	f.keepers = f.keepers[:0]
	for i := range v.n {
		for on, part := range g.keeps[i*v.r : (i+1)*v.r] {
			if part > 0 {
				f.keepers = append(f.keepers, keeper{int32(i), int32(on), part, max(part, g.occupies(v, i, on))})
			}
		}
	}
	for on := range v.r {
		if v.dammed(g, on) {
			f.keepers = append(f.keepers, keeper{g.queued[on].dam, int32(v.r + on), 1, 1})
		}
	}
}

// connect says where the pools' blame goes on from keepers that wait themselves.
func (f *flow) connect(v *view, g *graph) {
	for _, k := range f.keepers {
		i, pool := int(k.task), int(k.pool)
		if g.waits[i] == 0 {
			continue
		}
		for on, lost := range g.onward[i*v.r : (i+1)*v.r] {
			switch {
			case lost == 0:
			case g.edged(i, on):
				f.links = append(f.links, link{pool, i, on, k.passes * lost})
			default:
				f.to[pool*f.pools+f.poolFor(v, g, i, on)] += k.passes * lost
			}
		}
	}
}

// edged reports whether task i has edges over resource on.
func (g *graph) edged(i, on int) bool {
	for k := g.edgesFrom[i]; k < g.edgesFrom[i+1]; k++ {
		if int(g.edge[k].Resource) == on {
			return true
		}
	}
	return false
}

// stay enters what is where it is now, and stays there as far as nobody there waits.
func (f *flow) stay(v *view, g *graph) {
	for i := range v.n {
		if !f.live[i] {
			continue
		}
		row := f.moving[i*v.r : (i+1)*v.r]
		if g.dams[i] {
			addTo(g.through[i*v.r:(i+1)*v.r], row, 1)
		}
		addTo(g.final[i*v.r:(i+1)*v.r], row, 1-g.waits[i])
		addTo(g.nobody, row, g.gone[i])
	}
}

// pass moves everything one step along and reports whether anything moves on.
func (f *flow) pass(v *view, g *graph) bool {
	clear(f.next)
	clear(f.soon)
	clear(f.fed)
	moved, w := false, f.width
	for i := range v.n {
		if !f.live[i] {
			continue
		}
		row := f.moving[i*w : (i+1)*w]
		if g.waits[i] == 0 || !some(row) {
			continue
		}
		moved = true
		for on, lost := range g.onward[i*v.r : (i+1)*v.r] {
			switch {
			case lost == 0:
			case g.edged(i, on):
				f.along(v, g, i, on, row, lost)
			default:
				p := f.poolFor(v, g, i, on)
				addTo(f.fed[p*w:(p+1)*w], row, lost)
			}
		}
	}
	addTo(f.sum, f.pool, 1)
	for p := range f.pools {
		row := f.pool[p*w : (p+1)*w]
		if f.full[p] = some(row); !f.full[p] {
			continue
		}
		for q, part := range f.to[p*f.pools : (p+1)*f.pools] {
			if part > 0 {
				moved = true
				addTo(f.fed[q*w:(q+1)*w], row, part)
			}
		}
	}
	for _, l := range f.links {
		if f.full[l.pool] {
			moved = true
			f.along(v, g, l.task, l.on, f.pool[l.pool*w:(l.pool+1)*w], l.part)
		}
	}
	f.moving, f.next = f.next, f.moving
	f.live, f.soon = f.soon, f.live
	f.pool, f.fed = f.fed, f.pool
	return moved || some(f.pool)
}

// along sends a part of row along the edges of task i over resource on.
func (f *flow) along(v *view, g *graph, i, on int, row []float64, part float64) {
	for k := g.edgesFrom[i]; k < g.edgesFrom[i+1]; k++ {
		if e := g.edge[k]; int(e.Resource) == on && g.part[k] > 0 {
			to := int(e.Blocker)
			f.soon[to] = true
			addTo(f.next[to*f.width:(to+1)*f.width], row, part*g.part[k])
		}
	}
}

// settle gives the keepers what stayed with them of all that the pools handed out,
// and what is still in the pools.
func (f *flow) settle(v *view, g *graph) {
	for _, k := range f.keepers {
		i, pool := int(k.task), int(k.pool)
		final := g.final[i*v.r : (i+1)*v.r]
		addTo(final, f.pool[pool*v.r:(pool+1)*v.r], k.part)
		if g.dams[i] {
			addTo(g.through[i*v.r:(i+1)*v.r], f.sum[pool*v.r:(pool+1)*v.r], k.part)
		}
		if keep := 1 - g.waits[i]; keep > 0 {
			addTo(final, f.sum[pool*v.r:(pool+1)*v.r], k.part*keep)
		}
		addTo(g.nobody, f.sum[pool*v.r:(pool+1)*v.r], k.passes*g.gone[i])
	}
}

// addTo adds part times each element of row to sum.
func addTo(sum, row []float64, part float64) {
	sum = sum[:len(row)]
	for i, x := range row {
		sum[i] += part * x
	}
}

func some(row []float64) bool {
	for _, x := range row {
		if x != 0 {
			return true
		}
	}
	return false
}
