package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a world. A description beyond one of them is a mistake.
const (
	// MaxName is the longest name, in bytes.
	MaxName = 64
	// MaxEntries is the most entries of one list: hosts, services, the methods of
	// a service, steps, calls of a step, groups, what a group asks for, faults.
	MaxEntries = 1000
	// MaxPoints is the most points of one draw.
	MaxPoints = 10_000
	// MaxArrivals is the most instants of one trace.
	MaxArrivals = 1_000_000
	// MaxProcesses is the most processes of all services together.
	MaxProcesses = 1000
	// MaxClients is the most connections, and the most users, of all groups
	// together.
	MaxClients = 100_000
	// MaxCalls is the most calls that one request leads to, those of its calls
	// included.
	MaxCalls = 1000
	// MaxProcessors is the most processors of a host and the most threads of a process,
	// MaxWorkers the most workers of one.
	MaxProcessors, MaxWorkers = 1024, 1_000_000
	// MaxAnswer is the largest answer, in bytes.
	MaxAnswer = 16 << 20
	// MaxRate is the highest rate, in requests per second, MaxTimes the highest
	// multiple of the capacity.
	MaxRate, MaxTimes = 1_000_000_000, 1000
	// MaxTime is the longest time of any kind.
	MaxTime = 24 * time.Hour
	// MinEvery is the shortest period of bursts and faults.
	MinEvery = time.Millisecond
)

// Mistake is one thing wrong with a world.
type Mistake struct {
	// Path names the place as world files do: services[1].methods[0].steps[2].call[0].
	Path string
	// Value is what was found; empty if something is missing. Want is what was
	// expected.
	Value, Want string
}

// Error says what was found and what was expected.
func (m Mistake) Error() string {
	value := m.Value
	if value == "" {
		value = "missing"
	}
	return fmt.Sprintf("%s: %s, expected %s", m.Path, value, m.Want)
}

// Check returns every mistake in w, in the order of its fields, and nil if there is
// none. A field that has its default's zero value is right. It costs time in
// proportion to the size of w.
func (w *World) Check() []Mistake {
	c := &checker{world: w}
	c.times()
	c.hosts()
	c.services()
	c.graph()
	for i := range w.Clients {
		c.group(fmt.Sprintf("clients[%d]", i), &w.Clients[i])
	}
	c.clients()
	c.duration("network.delay", w.Network.Delay, 0)
	c.duration("network.jitter", w.Network.Jitter, 0)
	c.number("network.lose_grant", w.Network.LoseGrant, 1, false)
	c.number("network.repeat_grant", w.Network.RepeatGrant, 1, false)
	c.number("network.delay_grant", w.Network.DelayGrant, 1, false)
	c.entries("faults", len(w.Faults))
	for i := range w.Faults {
		c.fault(fmt.Sprintf("faults[%d]", i), &w.Faults[i])
	}
	if len(c.mistakes) == 0 {
		c.multiples()
	}
	return c.mistakes
}

// checker collects mistakes.
type checker struct {
	world    *World
	mistakes []Mistake
	// methods finds a method by its name, flat, without those whose names are
	// wrong.
	methods map[Target]*node
}

func (c *checker) wrong(path, value, want string) {
	c.mistakes = append(c.mistakes, Mistake{path, value, want})
}

// times checks the objective and the times of the run.
func (c *checker) times() {
	w := c.world
	if w.Objective == 0 {
		c.wrong("objective", "", "the latency that clients should see, for example 100ms")
	} else {
		c.duration("objective", w.Objective, time.Microsecond)
	}
	switch {
	case w.Length == 0:
		c.wrong("length", "", "the time that the run takes, for example 30s")
	case c.duration("length", w.Length, time.Millisecond) && c.duration("warmup", w.Warmup, 0) && w.Warmup >= w.Length:
		c.wrong("warmup", w.Warmup.String(), "less than the length, "+w.Length.String())
	}
}

func (c *checker) hosts() {
	w := c.world
	c.entries("hosts", len(w.Hosts))
	seen := map[string]string{}
	for i, h := range w.Hosts {
		path := fmt.Sprintf("hosts[%d]", i)
		c.name(path, h.Name, seen)
		c.integer(path+".processors", h.Processors, 1, MaxProcessors)
		if h.Message > 0 {
			c.duration(path+".message", h.Message, 0)
		}
	}
}

// clients checks what concerns all groups together.
func (c *checker) clients() {
	w := c.world
	if len(w.Clients) == 0 {
		c.wrong("clients", "", "one group or more")
	}
	c.entries("clients", len(w.Clients))
	seen := map[string]string{}
	connections, users := 0, 0
	for i := range w.Clients {
		g := &w.Clients[i]
		c.name(fmt.Sprintf("clients[%d]", i), g.Name, seen)
		// Each factor is at most MaxClients where it is right, and so is the sum of
		// products below the range of an int.
		connections += bounded(g.Clients) * bounded(g.Connections)
		users += bounded(g.Load.Users)
	}
	if connections > MaxClients {
		c.wrong("clients", fmt.Sprintf("%d connections", connections), fmt.Sprintf("at most %d", MaxClients))
	}
	if users > MaxClients && users > len(w.Clients) {
		c.wrong("clients", fmt.Sprintf("%d users", users), fmt.Sprintf("at most %d", MaxClients))
	}
}

// bounded returns n, or its default 1, at most MaxClients.
func bounded(n int) int { return min(max(n, 1), MaxClients) }

func (c *checker) fault(path string, f *Fault) {
	c.instant(path+".at", f.At)
	if f.For == 0 {
		c.wrong(path+".for", "", "how long it lasts, for example 1s")
	} else {
		c.duration(path+".for", f.For, time.Nanosecond)
	}
	if f.Every != 0 {
		c.duration(path+".every", f.Every, max(f.For, MinEvery))
	}
	c.duration(path+".notice", f.Notice, 0)
	s := c.service(f.Service)
	if f.Vanish != 0 {
		c.number(path+".vanish", f.Vanish, 1, true)
		if f.Service != "" || f.Replica != 0 {
			c.wrong(path+".service", f.Service, "none, for clients vanish")
		}
	} else if s == nil {
		c.unknown(path+".service", f.Service, "a service", c.serviceNames())
	} else if replicas := max(s.Replicas, 1); f.Replica < 0 || f.Replica > replicas {
		c.integer(path+".replica", f.Replica, 0, replicas)
	}
	set := 0
	for _, is := range [...]bool{f.Slower != 0, f.Stop, f.Kill, f.Vanish != 0} {
		if is {
			set++
		}
	}
	if set != 1 {
		c.wrong(path, fmt.Sprintf("%d of slower, stop, kill and vanish", set), "one of them")
	}
	if f.Slower != 0 {
		c.number(path+".slower", f.Slower, MaxTimes, true)
	}
}

// name checks the name of the thing at path, and that it is the only one so far.
func (c *checker) name(path, name string, seen map[string]string) {
	path += ".name"
	switch first, dup := seen[name]; {
	case name == "":
		c.wrong(path, "", "a name")
	case len(name) > MaxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }):
		c.wrong(path, strconv.Quote(cut(name)), fmt.Sprintf("at most %d bytes that can be printed", MaxName))
	case dup:
		c.wrong(path, strconv.Quote(name), "another name: "+first+" has it")
	default:
		seen[name] = path
	}
}

// unknown reports a name that nothing has.
func (c *checker) unknown(path, name, what string, known []string) {
	value := strconv.Quote(cut(name))
	if name == "" {
		value = ""
	}
	const most = 10
	seen := map[string]bool{}
	known = slices.DeleteFunc(slices.Clone(known), func(name string) bool { // a name given twice is another mistake
		twice := seen[name]
		seen[name] = true
		return twice
	})
	list := strings.Join(known[:min(len(known), most)], ", ")
	if len(known) > most {
		list += ", …"
	}
	if list != "" {
		what += ": " + list
	}
	c.wrong(path, value, what)
}

func (c *checker) entries(path string, n int) {
	if n > MaxEntries {
		c.wrong(path, fmt.Sprintf("%d entries", n), fmt.Sprintf("at most %d", MaxEntries))
	}
}

func (c *checker) integer(path string, n, least, most int) bool {
	if n < least || n > most {
		c.wrong(path, strconv.Itoa(n), fmt.Sprintf("%d to %d", least, most))
		return false
	}
	return true
}

// number checks that x is at least 0, or above it, and at most most.
func (c *checker) number(path string, x, most float64, above bool) bool {
	if x >= 0 && x <= most && !(above && x == 0) {
		return true
	}
	want := fmt.Sprintf("0 to %g", most)
	if above {
		want = fmt.Sprintf("above 0, at most %g", most)
	}
	c.wrong(path, fmt.Sprintf("%g", x), want)
	return false
}

func (c *checker) duration(path string, d, least time.Duration) bool {
	if d < least || d > MaxTime {
		c.wrong(path, d.String(), fmt.Sprintf("%v to %v", least, MaxTime))
		return false
	}
	return true
}

// instant checks that something at d happens within the run.
func (c *checker) instant(path string, d time.Duration) bool {
	if d < 0 || c.world.Length > 0 && d >= c.world.Length {
		c.wrong(path, d.String(), fmt.Sprintf("an instant of the run, 0s to less than %v", c.world.Length))
		return false
	}
	return true
}

// cut shortens what would make a report unreadable.
func cut(s string) string {
	if len(s) > MaxName {
		return strings.ToValidUTF8(s[:MaxName], "") + "…"
	}
	return s
}
