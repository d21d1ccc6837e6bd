package share

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

const (
	// MaxOverrides is the most overrides of a Classifier; more are a mistake in the
	// configuration.
	MaxOverrides = 64
	// MaxKeyBytes is the longest key, its three parts together, that is learned. What
	// is longer stays unknown.
	MaxKeyBytes = 512
)

// Key is what requests of one kind have in common.
type Key struct{ Caller, Callee, Method string }

// Override gives a class to keys by configuration. An empty part matches
// anything.
type Override struct {
	Caller, Callee, Method string
	Class                  work.Class
}

func (o *Override) matches(k Key) bool {
	return (o.Caller == "" || o.Caller == k.Caller) && (o.Callee == "" || o.Callee == k.Callee) && (o.Method == "" || o.Method == k.Method)
}

// Why says what a class was decided by. Its names are metric labels.
type Why uint8

// What decides, strongest first.
const (
	// ByOverride: a configured override matches.
	ByOverride Why = iota
	// ByUnknown: nothing is known of the key, so it has the class Default.
	ByUnknown
	// ByFew: too little is known of the key, so it has the class Default.
	ByFew
	// ByHops: requests go on to so many further services that they are
	// interactive.
	ByHops
	// ByTotal: their whole takes so much longer than this service's part that they
	// are interactive.
	ByTotal
	// ByHistory: neither holds any more, but not by enough to change back.
	ByHistory
	// ByNeither: neither holds, so the class is Default.
	ByNeither

	numWhys
)

var whyNames = [...]string{
	ByOverride: "override",
	ByUnknown:  "unknown",
	ByFew:      "few",
	ByHops:     "hops",
	ByTotal:    "total",
	ByHistory:  "history",
	ByNeither:  "neither",
}

// String returns the metric label of w.
func (w Why) String() string {
	if int(w) < len(whyNames) {
		return whyNames[w]
	}
	return "unknown"
}

// ClassifierConfig sets what is interactive. Zero fields take the default named
// in their comment.
type ClassifierConfig struct {
	// Hops is the mean number of services that a request still goes to from which on
	// it is interactive. Default 1. Larger makes fewer requests interactive.
	Hops float64
	// Total is the ratio of a request's whole service time to this service's part
	// from which on it is interactive. Default 2. Larger makes fewer requests
	// interactive.
	Total float64
	// Leave is how far, as a share of them, both must fall below Hops and Total for
	// an interactive key to become a default one, 0 to 1. Default 0.25. Larger
	// flaps less and stays wrong longer.
	Leave float64
	// Memory is how many requests a mean remembers. Default 64. Larger is steadier
	// and slower.
	Memory int
	// Few is how many requests of a key are seen before it has a class of its own.
	// Default 8.
	Few int
	// MaxKeys is how many keys are remembered; a new one replaces the one that was
	// learned longest ago. Default 4,096. A key takes some 150 bytes and its text.
	MaxKeys int
	// Overrides decide before anything is learned, the first that matches.
	Overrides []Override
}

func (c ClassifierConfig) withDefaults() (ClassifierConfig, error) {
	var errs []error
	ratio := func(name string, v *float64, low, high, standard float64) {
		if *v == 0 {
			*v = standard
		} else if !(*v >= low && *v <= high) {
			errs = append(errs, fmt.Errorf("share: %s is %v, expected %v to %v, or 0 for the default", name, *v, low, high))
		}
	}
	count := func(name string, v *int, high, standard int) {
		if *v == 0 {
			*v = standard
		} else if *v < 1 || *v > high {
			errs = append(errs, fmt.Errorf("share: %s is %d, expected 1 to %d, or 0 for the default", name, *v, high))
		}
	}
	ratio("Hops", &c.Hops, 0.01, 1000, 1)
	ratio("Total", &c.Total, 1, 1000, 2)
	ratio("Leave", &c.Leave, 0, 1, 0.25)
	count("Memory", &c.Memory, 1<<20, 64)
	count("Few", &c.Few, 1<<20, 8)
	count("MaxKeys", &c.MaxKeys, 1<<20, 4096)
	if len(c.Overrides) > MaxOverrides {
		errs = append(errs, fmt.Errorf("share: there are %d Overrides, expected at most %d", len(c.Overrides), MaxOverrides))
	}
	for i, o := range c.Overrides {
		if o.Class >= work.NumClasses {
			errs = append(errs, fmt.Errorf("share: override %d has class %d, expected one below %d", i, o.Class, work.NumClasses))
		}
	}
	return c, errors.Join(errs...)
}

// Classifier tells interactive requests from others by what became of earlier
// ones with the same caller, callee and method. It remembers a bounded number of
// keys. Classify only looks a key up, so that requests which are refused, or
// made up, displace nothing.
type Classifier struct {
	cfg   ClassifierConfig
	index map[Key]int32
	slots []learned
	// The list of slots by the time they were last learned, both ends.
	oldest, newest int32
	interactive    int // keys that are
	long           int64
	// last is the slot that was learned last: as a rule the next request is of the same key, and to find that
	// by three texts takes longer than to learn. −1: none.
	last int32
}

// learned is what is known of one key.
type learned struct {
	key                       Key
	hops, total, service, own float64 // means; the times in nanoseconds
	count                     int
	interactive               bool
	why                       Why
	older, newer              int32 // −1: none
}

// NewClassifier returns a classifier that knows nothing, or every mistake in cfg.
func NewClassifier(cfg ClassifierConfig) (*Classifier, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Overrides = append([]Override(nil), cfg.Overrides...)
	return &Classifier{cfg: cfg, index: map[Key]int32{}, oldest: -1, newest: -1, last: -1}, nil
}

// Verdict is a class and where it comes from.
type Verdict struct {
	Key   Key
	Class work.Class
	Why   Why
	// Hops is the mean number of further services, Ratio the whole service time over
	// this service's part; 0 if nothing is known.
	Hops, Ratio float64
	// Isolated is what requests take from this service on when nothing queues
	// anywhere, the mean of Course.Service; 0 if nothing is known. It is what
	// Sample.Isolated asks for.
	Isolated time.Duration
	// Seen is how many requests that rests on.
	Seen int
}

// Classify returns the class of requests with this key. It does not allocate.
func (c *Classifier) Classify(k Key) work.Class {
	if o := c.override(k); o != nil {
		return o.Class
	}
	if c.interactive == 0 {
		return work.Default // whatever is known of the key: to look it up takes longer than all else here
	}
	if slot, known := c.index[k]; known && c.slots[slot].interactive {
		return work.Interactive
	}
	return work.Default
}

// Plain reports whether requests of every key have the class Default now, so that Classify need not be asked.
func (c *Classifier) Plain() bool { return c.interactive == 0 && len(c.cfg.Overrides) == 0 }

// override returns the first that matches, nil if none does.
func (c *Classifier) override(k Key) *Override {
	for i := range c.cfg.Overrides {
		if o := &c.cfg.Overrides[i]; o.matches(k) {
			return o
		}
	}
	return nil
}

// Explain returns the class and the reason for it.
func (c *Classifier) Explain(k Key) Verdict {
	v := Verdict{Key: k, Why: ByUnknown}
	slot, known := c.index[k]
	if known {
		l := &c.slots[slot]
		v.Hops, v.Ratio, v.Seen, v.Why = l.hops, l.ratio(), l.count, l.why
		v.Isolated = time.Duration(l.service)
		if l.interactive {
			v.Class = work.Interactive
		}
	}
	if o := c.override(k); o != nil {
		v.Class, v.Why = o.Class, ByOverride
	}
	return v
}

// Course is what one completed request did. Times are of service: what it waited
// for is left out.
type Course struct {
	// Hops is how many services it went to after this one.
	Hops int
	// Total is the whole request's, Service what it took from this service on, its
	// calls included, and Own this service's part.
	Total, Service, Own time.Duration
}

// Learn takes the course of one completed request with this key. Values that
// cannot be are moved to the nearest that can. It returns the Verdict.Isolated of the key from
// now on, and allocates for a new key only.
func (c *Classifier) Learn(k Key, did Course) (isolated time.Duration) {
	slot, known := c.last, true
	if slot < 0 || c.slots[slot].key != k {
		slot, known = c.index[k]
	}
	if !known {
		if len(k.Caller)+len(k.Callee)+len(k.Method) > MaxKeyBytes {
			c.long++
			return 0
		}
		slot = c.add(k)
	}
	c.touch(slot)
	c.last = slot
	l := &c.slots[slot]
	own := max(did.Own, 1)
	service := max(did.Service, own)
	l.count = min(l.count+1, math.MaxInt32)
	weight := max(1/float64(l.count), 1/float64(c.cfg.Memory))
	l.hops += (float64(min(max(did.Hops, 0), maxStages)) - l.hops) * weight
	l.total += (float64(max(did.Total, service)) - l.total) * weight
	l.service += (float64(service) - l.service) * weight
	l.own += (float64(own) - l.own) * weight
	c.decide(l)
	return time.Duration(l.service)
}

// ratio is at least 1, as each total is at least its own: the means are rounded apart.
func (l *learned) ratio() float64 { return max(1, l.total/l.own) }

func (c *Classifier) decide(l *learned) {
	was := l.interactive
	c.judge(l)
	switch {
	case l.interactive && !was:
		c.interactive++
	case was && !l.interactive:
		c.interactive--
	}
}

// judge gives a key its class.
func (c *Classifier) judge(l *learned) {
	stay := 1 - c.cfg.Leave
	switch {
	case l.count < c.cfg.Few:
		l.why = ByFew
	case l.hops >= c.cfg.Hops:
		l.interactive, l.why = true, ByHops
	case l.ratio() >= c.cfg.Total:
		l.interactive, l.why = true, ByTotal
	case l.interactive && (l.hops >= c.cfg.Hops*stay || l.ratio() >= c.cfg.Total*stay):
		l.why = ByHistory
	default:
		l.interactive, l.why = false, ByNeither
	}
}

// Keys returns the number of keys that are remembered.
func (c *Classifier) Keys() int { return len(c.index) }

// TooLong returns how many requests taught nothing because their key is longer
// than MaxKeyBytes.
func (c *Classifier) TooLong() int64 { return c.long }

// add gives a slot to a new key.
func (c *Classifier) add(k Key) int32 {
	slot := int32(len(c.slots))
	if len(c.slots) < c.cfg.MaxKeys {
		c.slots = append(c.slots, learned{older: -1, newer: -1})
	} else {
		slot = c.oldest
		c.unlink(slot)
		delete(c.index, c.slots[slot].key)
		if c.slots[slot].interactive {
			c.interactive--
		}
	}
	// The texts may be parts of something larger that must not be kept.
	k = Key{strings.Clone(k.Caller), strings.Clone(k.Callee), strings.Clone(k.Method)}
	c.slots[slot] = learned{key: k, older: -1, newer: -1}
	c.index[k] = slot
	c.link(slot)
	return slot
}

// touch makes a slot the one learned last.
func (c *Classifier) touch(slot int32) {
	if c.newest != slot {
		c.unlink(slot)
		c.link(slot)
	}
}

func (c *Classifier) link(slot int32) {
	l := &c.slots[slot]
	l.older, l.newer = c.newest, -1
	if c.newest >= 0 {
		c.slots[c.newest].newer = slot
	} else {
		c.oldest = slot
	}
	c.newest = slot
}

func (c *Classifier) unlink(slot int32) {
	l := &c.slots[slot]
	if l.older >= 0 {
		c.slots[l.older].newer = l.newer
	} else {
		c.oldest = l.newer
	}
	if l.newer >= 0 {
		c.slots[l.newer].older = l.older
	} else {
		c.newest = l.older
	}
}
