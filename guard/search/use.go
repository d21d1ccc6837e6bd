package search

import (
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/mono"
)

// saturated is the load of a node's processors from which on those who run lack some. It is known
// to a few milliseconds in a tenth of a second.
const saturated = 0.9

// rate is what a node did since the look before.
type rate struct {
	known      bool
	collecting float64 // share of the time for which the collector stopped it
	each       float64 // processors that each of its running parts has, at most 1
}

// rates compares what nodes count with the look before.
func (b *builder) rates(in *input, parts []part) map[string]rate {
	running := map[string]float64{}
	for i := range parts {
		running[parts[i].Node] += parts[i].runs
	}
	span := in.at.Sub(b.before)
	out := map[string]rate{}
	for id, now := range in.nodes {
		was, ok := b.nodes[id]
		if !ok || span <= 0 || now.Process.CPU.Millis < was.Process.CPU.Millis {
			continue
		}
		share := func(millis int64) float64 {
			return max(float64(time.Duration(millis)*time.Millisecond)/float64(span), 0)
		}
		r := rate{known: true, collecting: min(share(now.collecting()-was.collecting()), 1), each: 1}
		procs := float64(max(in.processors[id], 1))
		if used := share(now.Process.CPU.Millis - was.Process.CPU.Millis); used >= saturated*procs && running[id] > procs {
			r.each = procs / running[id]
		}
		out[id] = r
	}
	return out
}

// usage sums up what the parts of one task used since the look before.
type usage struct {
	cpu, memory        uint64
	starved, collected time.Duration
	threads            float64
}

// consume enters what tasks used of processors and heap, and what they lost to both. A task with
// several threads loses what one of them does in the mean.
func (b *builder) consume(in *input, parts []part, entries []*track.Entry) {
	rates := b.rates(in, parts)
	used := map[int]*usage{}
	for i := range parts {
		p := &parts[i]
		u := used[p.root]
		if u == nil {
			u = &usage{}
			used[p.root] = u
		}
		b.add(in.at, p, u, rates[p.Node])
	}
	for i := range parts {
		u := used[i]
		if u == nil || u.threads == 0 && u.cpu == 0 && u.memory == 0 {
			continue
		}
		n := max(u.threads, 1)
		b.tracker.Consumes(entries[i], processor, u.cpu, time.Duration(float64(u.starved)/n))
		b.tracker.Consumes(entries[i], heap, u.memory, time.Duration(float64(u.collected)/n))
	}
}

// add enters one part.
func (b *builder) add(at mono.Time, p *part, u *usage, r rate) {
	span := at.Sub(p.started)
	if !p.fresh {
		span = min(span, at.Sub(b.before))
	}
	if p.runs > 0 && p.ran != 0 {
		span = min(span, max(at.Sub(p.ran), 0))
	}
	ran := time.Duration(p.runs * float64(max(span, 0)))
	collected := time.Duration(r.collecting * float64(ran))
	var cpu time.Duration
	if p.Resources != nil {
		total := p.Resources.Total
		cpu = time.Duration(max(total.CPU-p.cpu, 0))
		u.memory += uint64(max(total.Memory-p.heap, 0))
		p.cpu, p.heap = max(total.CPU, p.cpu), max(total.Memory, p.heap)
	} else {
		each := 1.0 // a node of which nothing is known yet is taken not to lack processors
		if r.known {
			each = r.each
		}
		cpu = time.Duration(each * float64(ran-collected))
		p.cpu += int64(cpu) // the next detailed look tells the whole
	}
	u.cpu += uint64(max(cpu, 0))
	if p.runs == 0 {
		return
	}
	u.threads += p.runs
	u.collected += collected
	u.starved += max(ran-collected-cpu, 0)
}
