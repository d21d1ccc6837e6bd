package taskfile

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// play acts out the script of a vector and returns the file.
func play(t *testing.T, script string) *File {
	t.Helper()
	f, _ := playLooks(t, script)
	return f
}

// playLooks is play for a script with looks, and returns the file at each, one after
// the other.
func playLooks(t *testing.T, script string) (f *File, looks []byte) {
	t.Helper()
	p := &player{slots: map[int]*Slot{}}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "look" {
			looks = append(looks, p.f.mem...)
			continue
		}
		if !p.setting(verb, rest) && !p.event(verb, numbers(rest)) {
			t.Fatalf("no such line: %s", line)
		}
	}
	return p.f, looks
}

type player struct {
	f     *File
	slots map[int]*Slot
}

// setting does what is no event of a task.
func (p *player) setting(verb, rest string) bool {
	n := numbers(rest)
	switch verb {
	case "create":
		p.f = inMemory(Geometry{Slots: int(n[0]), Resources: int(n[1]), Kinds: int(n[2])})
	case "clock":
		mode := map[string]Mode{"off": Off, "coarse": Coarse, "precise": Precise}[strings.Fields(rest)[1]]
		p.f.at(n[0], mode)
	case "resource":
		kind, name, _ := strings.Cut(rest, " ")
		p.f.Resource(name, map[string]ResourceKind{"lock": Lock, "memory": Memory, "queue": Queue, "system": System}[kind])
	case "kind":
		p.f.Kind(rest)
	case "begin":
		task := Task{Key: n[1], Flags: Flags(n[2]), Started: n[3]}
		if name := strings.SplitN(rest, " ", 5)[4]; name != "-" {
			task.Kind = Fingerprint(name)
		}
		p.f.words(int(n[0])).owner = uint64(p.f.self)
		s := p.f.begin(int(n[0]), task, nil)
		p.slots[int(n[0])] = &s
	case "untraced":
		p.f.live.untraced++
	case "keep":
		p.f.kept()[n[0]] = keepWords{Fingerprint(strings.SplitN(rest, " ", 3)[2]), n[1]}
	case "keeps":
		p.f.live.keeps = n[0]
	default:
		return false
	}
	return true
}

// event does an event of the task in slot n[0].
func (p *player) event(verb string, n []uint64) bool {
	s := p.slots[int(n[0])]
	switch verb {
	case "acquire":
		s.Acquire(int(n[1]), n[2])
	case "release":
		s.Release(int(n[1]), n[2])
	case "wait":
		s.WaitBegin(int(n[1]))
	case "waitend":
		s.WaitEnd(int(n[1]))
	case "evicted":
		s.Evicted(int(n[1]), n[2])
	case "waited":
		s.Waited(int(n[1]), n[2])
	case "shared":
		s.SetShared(int(n[1]), n[2] == 1)
	case "progress":
		s.SetProgress(n[1], n[2])
	case "flags":
		s.SetFlags(Flags(n[1]))
	case "delivered":
		s.Delivered()
	case "end":
		s.End()
	case "cancel":
		s.words.reason, s.words.cancel = n[1], s.sequence
		p.f.live.cancels++
	default:
		return false
	}
	return true
}

// numbers returns the fields of a line, those that are no number as 0.
func numbers(rest string) []uint64 {
	n := make([]uint64, 5)
	for i, field := range strings.Fields(rest) {
		if i < len(n) {
			n[i], _ = strconv.ParseUint(field, 10, 64)
		}
	}
	return n
}

// dump says in words what a file holds.
func dump(f *File) string {
	var out strings.Builder
	g, l := f.geo, f.live
	fmt.Fprintf(&out, "slots %d resources %d kinds %d bytes %d\n", g.Slots, g.Resources, g.Kinds, g.fileBytes())
	fmt.Fprintf(&out, "mode %v clock %d engine %d cancels %d untraced %d\n", modeOf(l.clock), l.clock&^modeBits, l.engine, l.cancels, l.untraced)
	for i := range f.resourceNames() {
		if name, kind, ok := f.resourceNames()[i].read(); ok {
			fmt.Fprintf(&out, "resource %d type %d %s\n", i, kind, name)
		}
	}
	for i := range f.kindNames() {
		if name, _, ok := f.kindNames()[i].read(); ok {
			fmt.Fprintf(&out, "kind %d %016x %s\n", i, Fingerprint(name), name)
			if keptOut(f, Fingerprint(name), l.clock&^modeBits) {
				fmt.Fprintf(&out, "kind %d is kept out\n", i)
			}
		}
	}
	for i := range g.Slots {
		if w := f.words(i); w.sequence != 0 {
			dumpSlot(&out, f, i, w)
		}
	}
	return out.String()
}

// keptOut is what a tracer answers about a kind at an instant.
func keptOut(f *File, kind, now uint64) bool {
	for _, k := range f.kept()[:min(f.live.keeps, mostKept)] {
		if k.kind == kind && kind != 0 && k.until > now && k.until-now <= uint64(LongestKeep) {
			return true
		}
	}
	return false
}

func dumpSlot(out *strings.Builder, f *File, i int, w *slotWords) {
	fmt.Fprintf(out, "slot %d owner %d sequence %d started %d key %d kind %016x flags %d done %d total %d finished %d delivered %d cancel %d reason %d\n",
		i, w.owner, w.sequence, w.started, w.key, w.kind, w.flags, w.done, w.total, w.finished, w.delivered, w.cancel, w.reason)
	for r, c := range f.cells(i) {
		if w.touched>>r&1 == 1 {
			fmt.Fprintf(out, "cell %d gets %d frees %d waits %d wait time %d waiting since %d hold time %d held since %d used %d shared %d\n",
				r, c.Gets, c.Frees, c.Waits, c.WaitTime, c.WaitingSince, c.HoldTime, c.HeldSince, c.Used, w.shared>>r&1)
		}
	}
	for k, n := range f.latencies(i) {
		if n != 0 {
			fmt.Fprintf(out, "latency %d %d\n", k, n)
		}
	}
}
