package classify

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const (
	// MaxRules is the most rules; a request may be compared with each.
	MaxRules = 256
	// MaxChoices is the most alternatives of one condition.
	MaxChoices = 64
	// MaxWorkflows is the most workflows that can be listed.
	MaxWorkflows = 1024
	// maxText is the longest name, value or pattern in a rule, in bytes.
	maxText = 256
	// MaxDeadline is the longest deadline.
	MaxDeadline = time.Hour
)

// DefaultName is what configurations and metrics call the workflow of requests
// that belong to no other. Inside, its name is empty.
const DefaultName = "default"

// Config describes Rules. The zero Config has every request in the default
// workflow, unless its sender is trusted and says otherwise.
type Config struct {
	// Workflows are the workflows that are told apart, by name. DefaultName is
	// that of all others. At most MaxWorkflows.
	Workflows map[string]Defaults
	// Rules are tried in order; the first that matches counts. Default none. At
	// most MaxRules.
	Rules []Rule
}

// Defaults are what the requests of a workflow have if nothing else says
// otherwise.
type Defaults struct {
	// Class is the kind of work. Default work.Default.
	Class work.Class
	// Priority is the order inside a class, 0 to 127. Default 0, the best. Larger
	// is less important.
	Priority work.Priority
	// Deadline is the deadline of a request that brought none, counted from its
	// arrival. Default 0: it has none. Smaller gives up sooner; larger works for
	// callers that may have left. At most MaxDeadline.
	Deadline time.Duration
	// Guarantee and Weight say what the workflow is granted of a server in comparison with others, in any unit. Here they
	// only decide which workflow a request is of whose path servers read in several ways: see Match.Path. Default 0; a
	// weight of 0 counts as 1. Larger has more.
	Guarantee, Weight float64
}

// weight is Weight, or its default.
func (d *Defaults) weight() float64 { return cmp.Or(d.Weight, 1) }

// Rule applies Set to the requests that match.
type Rule struct {
	Match Match
	Set   Set
}

// Match is a condition on a request. Every field must hold; a field with several
// values holds if one of them does. The zero Match holds for every request.
type Match struct {
	// Header are headers that come with the request.
	Header []Header
	// Path are patterns of paths, for gRPC of full methods. A pattern that ends in
	// a slash covers all below it, and a segment that is * stands for any one:
	// /orders/, /users/*/cart, /shop.Cart/. A path that servers read in several ways, such as
	// /bulk/..%2forders, /orders//1 or /orders;v=1, is compared by each of them, and the request
	// has of everything what comes of it by all of them: the default class, the largest priority, the
	// workflow with the smallest guarantee and weight, the longest deadline, as any client may bring its own, the
	// shortest objective, or the gate's if one sets none, and the smallest bound. It holds what
	// it holds by one of them, needs only what it needs by all, and cannot be cancelled if it cannot by one. Of one that is
	// longer than 2 KiB, or has "\" or dots, or ";" beside dots, both as they are and encoded, any
	// reading may be somebody's, and each path of a rule counts.
	Path []string
	// Method are HTTP methods. A gRPC call is a POST.
	Method []string
	// Host are names of hosts, without a port; *.example.com covers all below
	// example.com.
	Host []string
	// Peer are networks in which the connection begins. Behind a proxy that is
	// the proxy's.
	Peer []netip.Prefix
	// Baggage is for requests that say what they are, in tags or in W3C baggage.
	Baggage Baggage
	// EtcdRange are prefixes of keys, for requests to etcd (KV/Range, Txn, DeleteRange)
	// with a range that covers every key that has one of them; "" is every key there is.
	// Such a request costs etcd a walk over all these keys, whatever it asks of them. Only
	// an edge that can see messages knows it: see Peek. Elsewhere no request matches.
	EtcdRange []string
}

// Header is a condition on one header.
type Header struct {
	// Name, in upper or lower case.
	Name string
	// Value is the value of the header, which must come exactly once. Empty: the
	// header must be there, whatever its value.
	Value string
}

// Baggage is a condition on what a request says about itself.
type Baggage uint8

const (
	// NoBaggage is no condition.
	NoBaggage Baggage = iota
	// TrustedBaggage: the request says something, and the edge trusts its sender.
	TrustedBaggage
	// AnyBaggage: the request says something, and it is believed from any sender.
	AnyBaggage

	numBaggage
)

var baggageNames = [...]string{NoBaggage: "", TrustedBaggage: "trusted", AnyBaggage: "any"}

// String returns the name of b in configurations.
func (b Baggage) String() string {
	if b < numBaggage {
		return baggageNames[b]
	}
	return "unknown"
}

// ParseBaggage returns the condition called s.
func ParseBaggage(s string) (Baggage, error) {
	if i := slices.Index(baggageNames[:], s); i > 0 {
		return Baggage(i), nil
	}
	return NoBaggage, fmt.Errorf("classify: baggage is %.40q, expected trusted or any", s)
}

// ParseClass returns the class called s.
func ParseClass(s string) (work.Class, error) {
	for c := range work.NumClasses {
		if s == c.String() {
			return c, nil
		}
	}
	return 0, fmt.Errorf("classify: class is %.40q, expected default or interactive", s)
}

// Set is what a rule sets. A field that it leaves out comes from a trusted sender,
// or else from the workflow's defaults.
type Set struct {
	// Workflow is one of Config.Workflows, or DefaultName.
	Workflow string
	// WorkflowHeader names a header whose value is the workflow. A request without
	// it, with several, or with a value that cannot be a name is of the default
	// workflow; so is one whose name is not listed, if there is no room for it
	// among Names. Not together with Workflow.
	WorkflowHeader string
	// Class and Priority: nil leaves them.
	Class    *work.Class
	Priority *work.Priority
	// Deadline as in Defaults; 0 leaves it.
	Deadline time.Duration
	// Objective is the latency objective of these requests: longer for exports and
	// reports, shorter for lookups. Default 0: the gate's. At most MaxDeadline.
	// Classify and Stamp return it; httpgate.Objectives and grpcgate.WithObjectives
	// tell a gate inside a service.
	Objective time.Duration
	// Use is what such requests do inside the server. The proxy heeds it.
	Use Use
}

// Use is what requests of a rule do inside a server that does not report it itself, as
// far as its operator knows. The zero Use says nothing.
type Use struct {
	// Kind names what the requests do, in logs and to the engine that looks for culprits:
	// after one was found, no other of the kind may begin for a while. Default: the method
	// and path, as httpgate.Kind has it.
	Kind string
	// Holds names a resource, such as a lock, that a request keeps from others for as long
	// as the server works on it; Needs one that it cannot be answered without. A request
	// that holds one is blamed for those that need it. A name means the same in all rules.
	// At most MaxResources names.
	Holds, Needs string
	// AtOnce is the most requests of the rule that may be in the proxy at a time. A further
	// one is refused immediately. Default 0: no bound of its own.
	AtOnce int
	// NoCancel says that the server goes on with a request whose caller has given up.
	// Cancelling such a culprit would free nothing, so its kind is kept out instead.
	NoCancel bool
}

// MaxResources is the most names that Use.Holds and Use.Needs have in all rules: a task
// file has room for 16.
const MaxResources = 12

// Check calls wrong for every mistake in c, with the field as configuration files
// name it (rules[1].match.path[0]), the value that was found, empty if it is
// missing, and what was expected.
func (c Config) Check(wrong func(field, value, want string)) {
	if n := len(c.Workflows); n > MaxWorkflows {
		wrong("workflows", strconv.Itoa(n)+" workflows", fmt.Sprintf("at most %d", MaxWorkflows))
	}
	for _, name := range c.listed() {
		field, d := "workflows."+name, c.Workflows[name]
		if !wire.ValidWorkflow(name) {
			wrong(field, quote(name), fmt.Sprintf("a name of 1 to %d visible ASCII characters without , ; = %% \" \\", wire.MaxWorkflow))
		}
		checkRank(wrong, field, d.Class, d.Priority, d.Deadline)
	}
	if n := len(c.Rules); n > MaxRules {
		wrong("rules", strconv.Itoa(n)+" rules", fmt.Sprintf("at most %d", MaxRules))
	}
	all := -1
	for i, r := range c.Rules {
		field := fmt.Sprintf("rules[%d]", i)
		if all >= 0 {
			wrong(field, "a rule that is never reached", fmt.Sprintf("no rule after rules[%d], which matches every request", all))
		} else if r.Match.always() {
			all = i
		}
		r.Match.check(wrong, field+".match")
		c.checkSet(wrong, field+".set", r.Set)
		r.Set.Use.check(wrong, field+".set")
	}
	if n := len(c.resources()); n > MaxResources {
		wrong("rules", strconv.Itoa(n)+" names under holds and needs", fmt.Sprintf("at most %d", MaxResources))
	}
}

// resources returns the names that rules have for what requests hold and need.
func (c Config) resources() map[string]bool {
	names := map[string]bool{}
	for _, r := range c.Rules {
		for _, name := range [...]string{r.Set.Use.Holds, r.Set.Use.Needs} {
			if name != "" {
				names[name] = true
			}
		}
	}
	return names
}

// maxName is the longest name in a Use, in bytes, and maxAtOnce the largest bound.
const maxName, maxAtOnce = 64, 1_000_000

func (u Use) check(wrong func(field, value, want string), field string) {
	for _, name := range [...]struct{ key, value string }{{"kind", u.Kind}, {"holds", u.Holds}, {"needs", u.Needs}} {
		printable := !strings.ContainsFunc(name.value, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
		if len(name.value) > maxName || !printable {
			wrong(field+"."+name.key, quote(name.value), fmt.Sprintf("a name of at most %d printable bytes", maxName))
		}
	}
	if u.Holds != "" && u.Holds == u.Needs {
		wrong(field+".needs", quote(u.Needs), "a name other than that of holds, because a request that holds a resource has it")
	}
	if u.AtOnce < 0 || u.AtOnce > maxAtOnce {
		wrong(field+".at_once", strconv.Itoa(u.AtOnce), fmt.Sprintf("1 to %d, or 0 for no bound", maxAtOnce))
	}
}

// listed returns the names of the workflows in alphabetical order.
func (c Config) listed() []string {
	names := make([]string, 0, len(c.Workflows))
	for name := range c.Workflows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (m *Match) always() bool {
	return len(m.Header)+len(m.Path)+len(m.Method)+len(m.Host)+len(m.Peer)+len(m.EtcdRange) == 0 && m.Baggage == NoBaggage
}

func (m *Match) check(wrong func(field, value, want string), field string) {
	for _, c := range [...]struct {
		name string
		n    int
	}{{"header", len(m.Header)}, {"path", len(m.Path)}, {"method", len(m.Method)}, {"host", len(m.Host)}, {"peer", len(m.Peer)}, {"etcd_range", len(m.EtcdRange)}} {
		if c.n > MaxChoices {
			wrong(field+"."+c.name, strconv.Itoa(c.n)+" alternatives", fmt.Sprintf("at most %d", MaxChoices))
		}
	}
	at := func(name string, i int) string { return fmt.Sprintf("%s.%s[%d]", field, name, i) }
	for i, h := range m.Header {
		checkHeader(wrong, at("header", i), h.Name)
		if len(h.Value) > maxText {
			wrong(at("header", i), quote(h.Value), fmt.Sprintf("a value of at most %d bytes", maxText))
		}
	}
	for i, p := range m.Path {
		if want := checkPath(p); want != "" {
			wrong(at("path", i), quote(p), want)
		}
	}
	for i, s := range m.Method {
		if !token(s) || s != strings.ToUpper(s) {
			wrong(at("method", i), quote(s), "an HTTP method in capitals, for example GET")
		}
	}
	for i, h := range m.Host {
		if want := checkHost(h); want != "" {
			wrong(at("host", i), quote(h), want)
		}
	}
	for i, p := range m.Peer {
		if !p.IsValid() {
			wrong(at("peer", i), "an invalid network", "a network such as 10.0.0.0/8")
		}
	}
	for i, p := range m.EtcdRange {
		if len(p) > maxText {
			wrong(at("etcd_range", i), quote(p), fmt.Sprintf("a prefix of at most %d bytes", maxText))
		}
	}
	if m.Baggage >= numBaggage {
		wrong(field+".baggage", strconv.Itoa(int(m.Baggage)), "trusted or any")
	}
}

func (c Config) checkSet(wrong func(field, value, want string), field string, s Set) {
	if s.Workflow != "" && s.Workflow != DefaultName {
		if _, ok := c.Workflows[s.Workflow]; !ok {
			wrong(field+".workflow", quote(s.Workflow), "a name under workflows: "+c.some())
		}
	}
	if s.WorkflowHeader != "" {
		checkHeader(wrong, field+".workflow_header", s.WorkflowHeader)
		if s.Workflow != "" {
			wrong(field+".workflow_header", quote(s.WorkflowHeader), "no workflow beside it: one of the two decides")
		}
	}
	class, priority := work.Default, work.Priority(0)
	if s.Class != nil {
		class = *s.Class
	}
	if s.Priority != nil {
		priority = *s.Priority
	}
	checkRank(wrong, field, class, priority, s.Deadline)
	if d := s.Objective; d != 0 && (d < time.Millisecond || d > MaxDeadline) {
		wrong(field+".objective", d.String(), fmt.Sprintf("%v to %v, or 0 for that of all", time.Millisecond, MaxDeadline))
	}
}

// some shows names that would be right.
func (c Config) some() string {
	names := c.listed()
	if len(names) == 0 {
		return "none is there"
	}
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func checkRank(wrong func(field, value, want string), field string, class work.Class, priority work.Priority, deadline time.Duration) {
	if class >= work.NumClasses {
		wrong(field+".class", strconv.Itoa(int(class)), "default or interactive")
	}
	if priority > work.MaxPriority {
		wrong(field+".priority", strconv.Itoa(int(priority)), fmt.Sprintf("0 to %d", work.MaxPriority))
	}
	if deadline != 0 && (deadline < time.Millisecond || deadline > MaxDeadline) {
		wrong(field+".deadline", deadline.String(), fmt.Sprintf("%v to %v, or 0 for none", time.Millisecond, MaxDeadline))
	}
}

func checkHeader(wrong func(field, value, want string), field, name string) {
	switch {
	case !token(name):
		wrong(field, quote(name), "the name of a header, for example X-Tenant")
	case textproto.CanonicalMIMEHeaderKey(name) == "Host":
		wrong(field, quote(name), "another header: the host has a condition of its own")
	}
}

// token reports whether s is a token of RFC 9110 §5.6.2.
func token(s string) bool {
	if s == "" || len(s) > maxText {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// quote shows a value, cut to a readable length.
func quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return strconv.Quote(s)
}

// err returns every mistake in c.
func (c Config) err() error {
	var errs []error
	c.Check(func(field, value, want string) {
		if value == "" {
			value = "missing"
		}
		errs = append(errs, fmt.Errorf("classify: %s: %s, expected %s", field, value, want))
	})
	return errors.Join(errs...)
}
