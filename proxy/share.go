package proxy

import (
	"fmt"
	"net/textproto"
	"reflect"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// ClassOrder is what the class of a request does to the order in which requests
// wait for the slots of an upstream.
type ClassOrder uint8

const (
	// NoClasses: the proxy learns no classes. Those that a rule or a trusted sender
	// gives count as everywhere, with equal weights.
	NoClasses ClassOrder = iota
	// LearnedShare: classes are learned, and their weights steered: see package
	// share.
	LearnedShare
	// FixedShare: classes are learned, and the interactive one has Share.Weight.
	FixedShare
	// OnePriority: classes are learned, and interactive requests go first.
	OnePriority
	// OneFIFO: classes are learned and shown, and all requests wait in one queue in
	// the order of Schedule, whatever anybody says of their class.
	OneFIFO
)

var classOrders = [...]string{NoClasses: "off", LearnedShare: "share", FixedShare: "weighted", OnePriority: "priority", OneFIFO: "fifo"}

// ClassOrders is what ParseClassOrder accepts, for mistakes.
const ClassOrders = "off, share, weighted, priority or fifo"

// String returns the name that configuration files use.
func (o ClassOrder) String() string {
	if int(o) < len(classOrders) {
		return classOrders[o]
	}
	return "unknown"
}

// ParseClassOrder returns the order with that name.
func ParseClassOrder(name string) (ClassOrder, error) {
	if i := slices.Index(classOrders[:], name); i >= 0 {
		return ClassOrder(i), nil
	}
	return 0, fmt.Errorf("%q is not an order of classes, expected %s", name, ClassOrders)
}

// Share says how requests that go on to other services, and so queue at several,
// are told from those that do not, and what they get of the slots. It needs Slots
// that are fixed: a queue that waits inside the upstream is in no order. Classes
// are learned where the upstream's own calls pass: see Egress.
//
// What a request is has these sources, the first that says something: the class
// of a rule; Classes; a trusted sender; what was learned. The zero Share is off.
type Share struct {
	// Order turns it on. Default NoClasses.
	Order ClassOrder
	// Weight is the interactive class's with FixedShare, above 0 and below 1; the
	// default class has the rest. Larger favours interactive requests more.
	Weight float64
	// Service is what the servers behind the proxy are called as callees. Default
	// the name of the first upstream.
	Service string
	// Caller is the header that names who calls. Default User-Agent, of which the
	// first word counts, up to a slash. It comes from outside: who takes the name of
	// another gets its class.
	Caller string
	// Ratio, MaxHarm, MaxLoss, MaxWeight, Period, Patience and DefaultPatience are
	// those of share.Config, for LearnedShare, with its defaults.
	Ratio, MaxHarm, MaxLoss, MaxWeight float64
	Period                             time.Duration
	Patience, DefaultPatience          share.Patience
	// Classes give a class to callers, callees and methods, the first that matches.
	// A method is GET and a path, as the table of classes shows it.
	Classes []share.Override
}

// withDefaults fills in those of package share.
func (s Share) withDefaults() Share {
	or := func(to *float64, value float64) {
		if *to == 0 {
			*to = value
		}
	}
	or(&s.Ratio, 0.5)
	or(&s.MaxHarm, 0.25)
	or(&s.MaxLoss, 0.01)
	or(&s.MaxWeight, 0.95)
	if s.Period == 0 {
		s.Period = share.DefaultPeriod
	}
	if s.Caller == "" {
		s.Caller = "User-Agent"
	}
	return s
}

// Slots are how many requests an upstream works on at once.
type Slots struct {
	// Min and Max bound the number. Default 1 and 100,000: it is learned. Equal
	// values fix it.
	Min, Max int
}

// fixed is how many there are, 0 if that is learned.
func (s Slots) fixed() int {
	if s.Min == s.Max {
		return s.Min
	}
	return 0
}

// check finds the mistakes in s, which stands in field.
func (s Slots) check(wrong func(field, value, want string), field string) {
	if s.Min < 0 || s.Min > maxSlots {
		wrong(field+".min", strconv.Itoa(s.Min), fmt.Sprintf("1 to %d, or 0 for the default", maxSlots))
	} else if s.Max < 0 || s.Max > maxSlots {
		wrong(field+".max", strconv.Itoa(s.Max), fmt.Sprintf("1 to %d, or 0 for the default", maxSlots))
	} else if s.Max != 0 && s.Max < s.Min {
		wrong(field+".max", strconv.Itoa(s.Max), fmt.Sprintf("at least %s.min, which is %d", field, s.Min))
	}
}

const (
	maxSlots = 100_000
	// maxName is the longest name of a caller or callee, in bytes. Of a longer one
	// the beginning counts.
	maxName = 64
)

// checkShare finds the mistakes in slots and share.
func (c *Config) checkShare(wrong func(field, value, want string)) {
	c.Slots.check(wrong, "slots")
	s := &c.Share
	if int(s.Order) >= len(classOrders) {
		wrong("share.order", strconv.Itoa(int(s.Order)), ClassOrders)
	}
	if s.Order != NoClasses && c.Slots.fixed() == 0 {
		wrong("slots", "", "how many requests an upstream works on at once, for share.order "+s.Order.String()+": where that is learned, some wait inside the upstream, in its own order")
	}
	for i := range c.Groups {
		if own := c.Groups[i].Slots; s.Order != NoClasses && own != (Slots{}) && own.fixed() == 0 {
			wrong(fmt.Sprintf("groups[%d].slots", i), "learned", "a number, for share.order "+s.Order.String())
		}
	}
	switch {
	case s.Order == FixedShare && !(s.Weight > 0 && s.Weight < 1):
		wrong("share.weight", number(s.Weight), "above 0 and below 1 for share.order weighted")
	case s.Order != FixedShare && s.Weight != 0:
		wrong("share.weight", number(s.Weight), "share.order weighted beside it: the other orders have no fixed weight")
	}
	if len(s.Service) > maxName {
		wrong("share.service", quote(s.Service), fmt.Sprintf("at most %d bytes", maxName))
	}
	if s.Caller != "" && !httpguts.ValidHeaderFieldName(s.Caller) {
		wrong("share.caller", quote(s.Caller), "the name of a header, such as X-Caller")
	}
	between := func(field string, v, low, high float64) {
		if v != 0 && !(v >= low && v <= high) {
			wrong(field, number(v), fmt.Sprintf("%v to %v", low, high))
		}
	}
	between("share.ratio", s.Ratio, 0.01, 100)
	if s.MaxHarm >= 0 {
		between("share.harm", s.MaxHarm, 0, 100)
	}
	if s.MaxLoss >= 0 {
		between("share.loss", s.MaxLoss, 0, 1)
	}
	between("share.max_weight", s.MaxWeight, share.MinWeight, 1)
	if s.Period != 0 && (s.Period < time.Millisecond || s.Period > time.Hour) {
		wrong("share.period", s.Period.String(), fmt.Sprintf("%v to %v, or 0 for the default", time.Millisecond, time.Hour))
	}
	for _, p := range [...]struct {
		field string
		value share.Patience
	}{{"share.patience", s.Patience}, {"share.default_patience", s.DefaultPatience}} {
		if err := p.value.Check(); err != nil {
			wrong(p.field, err.Error(), "shares of all callers that add up to 1, each with how often they give up")
		}
	}
	if n := len(s.Classes); n > share.MaxOverrides {
		wrong("share.classes", strconv.Itoa(n), fmt.Sprintf("at most %d", share.MaxOverrides))
	}
	for i, o := range s.Classes {
		field := fmt.Sprintf("share.classes[%d]", i)
		if o.Class >= work.NumClasses {
			wrong(field+".class", strconv.Itoa(int(o.Class)), "default or interactive")
		}
		if o.Caller == "" && o.Callee == "" && o.Method == "" {
			wrong(field, "", "caller, callee or method: without one, every request would have the class")
		}
	}
}

// callerHeader is the header that names who calls, as net/http spells it.
func (s *Share) callerHeader() string { return textproto.CanonicalMIMEHeaderKey(s.Caller) }

// service is the name of the callee.
func (c *Config) service() string {
	if c.Share.Service != "" {
		return c.Share.Service
	}
	if len(c.Upstreams) == 0 {
		return ""
	}
	return cutName(c.Upstreams[0].label())
}

func (s *Share) classifier() share.ClassifierConfig {
	return share.ClassifierConfig{Overrides: s.Classes}
}

// controller is what steers the weights at one upstream.
func (c *Config) controller() share.Config {
	s := &c.Share
	return share.Config{
		Servers: float64(max(c.Slots.fixed(), 1)), Period: s.Period, Ratio: s.Ratio, MaxHarm: s.MaxHarm, MaxLoss: s.MaxLoss,
		MaxWeight: s.MaxWeight, Patience: s.Patience, DefaultPatience: s.DefaultPatience,
	}
}

// steersAs reports whether both make the same of classes, once those are known.
func (s Share) steersAs(o Share) bool {
	s.Classes, o.Classes = nil, nil
	return reflect.DeepEqual(s, o)
}
