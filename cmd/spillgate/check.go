package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/config"
	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/proxy"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Report every mistake in configuration files",
		Long: `Read configuration files, and the files they name, and print every mistake with
its place: file:line:column. If a file is right, print how its workflows, rules, slots
and classes are understood. The command starts nothing and resolves no names. The exit
code is 0 if all files are right, and 1 otherwise.`,
		Example: "  spillgate check spillgate.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no file named, expected one such as spillgate.yaml")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			mistakes := 0
			for _, path := range args {
				file, err := config.Load(path)
				if err != nil {
					for _, mistake := range flatten(err) {
						mistakes++
						fmt.Fprintln(cmd.OutOrStdout(), mistake)
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", path)
				var lines strings.Builder
				if file.Guard == nil && file.Broker == nil || file.HasProxy() {
					describe(&lines, &file.Proxy)
				}
				if file.Guard != nil {
					describeGuard(&lines, file.Guard)
				}
				if file.Broker != nil {
					describeBroker(&lines, file.Broker)
				}
				if err := writeWrapped(cmd.OutOrStdout(), lines.String(), 4); err != nil {
					return err
				}
			}
			switch mistakes {
			case 0:
				return nil
			case 1:
				return errors.New("1 mistake")
			}
			return fmt.Errorf("%d mistakes", mistakes)
		},
	}
}

// describe prints how c is understood, a line for each part of it.
func describe(w io.Writer, c *proxy.Config) {
	describeDoor(w, c)
	describeGroups(w, c)
	describeRules(w, c)
	switch slots := c.Slots; {
	case slots == proxy.Slots{}:
	case slots.Min == slots.Max:
		fmt.Fprintf(w, "  slots: %d\n", slots.Min)
	case slots.Max == 0:
		fmt.Fprintf(w, "  slots: learned, at least %d\n", slots.Min)
	default:
		fmt.Fprintf(w, "  slots: learned, %d to %d\n", max(slots.Min, 1), slots.Max)
	}
	describeShare(w, c.WithDefaults().Share)
	for _, e := range c.Egress {
		fmt.Fprintf(w, "  egress %s: calls of the upstreams to %s\n", e.Address, e.URL)
	}
}

// describeDoor prints where the proxy listens, what it enforces, and for which servers.
func describeDoor(w io.Writer, c *proxy.Config) {
	var listen, upstreams []string
	for i := range c.Listen {
		listen = append(listen, c.Listen[i].Address)
	}
	for i := range c.Upstreams {
		upstreams = append(upstreams, c.Upstreams[i].URL)
	}
	fmt.Fprintf(w, "  proxy %s: mode %v, slo %v", strings.Join(listen, ", "), c.Mode, c.Objective)
	if len(upstreams) > 0 {
		fmt.Fprintf(w, ", in front of %s", strings.Join(upstreams, ", "))
	}
	if c.Admin != "" {
		fmt.Fprintf(w, "; admin %s", c.Admin)
	}
	fmt.Fprintln(w)
}

// describeGroups prints which requests go where, and the access log.
func describeGroups(w io.Writer, c *proxy.Config) {
	for i := range c.Groups {
		g := &c.Groups[i]
		var when []string
		if len(g.Hosts) > 0 {
			when = append(when, "host "+strings.Join(g.Hosts, " or "))
		}
		if len(g.Paths) > 0 {
			when = append(when, "path "+strings.Join(g.Paths, " or "))
		}
		slo := g.Objective
		if slo == 0 {
			slo = c.Objective
		}
		fmt.Fprintf(w, "  group %s: %s: slo %v, upstreams: %d\n", g.Name, strings.Join(when, ", "), slo, len(g.Upstreams))
	}
	if len(c.Groups) > 0 {
		fmt.Fprintf(w, "  other requests: slo %v, upstreams: %d\n", c.Objective, len(c.Upstreams))
	}
	if a := c.WithDefaults().Access; a.Path != "" {
		fmt.Fprintf(w, "  access log %s: %.4g %% of served, %.4g %% of refused and %.4g %% of failed requests\n", a.Path, 100*max(a.Served, 0), 100*max(a.Refused, 0), 100*max(a.Failed, 0))
	}
}

// describeGuard prints what is guarded, without passwords.
func describeGuard(w io.Writer, c *guard.SetConfig) {
	for i := range c.Servers {
		s := &c.Servers[i]
		fmt.Fprintf(w, "  guard %s: %v, slo %v; rules: %d allow, %d deny\n", guard.Label(s.URL), s.Mode, s.Objective, len(s.Rules.Allow), len(s.Rules.Deny))
	}
}

// describeBroker prints where a broker listens, who may come and the limits of topics, without passwords.
func describeBroker(w io.Writer, c *broker.Config) {
	fmt.Fprintf(w, "  broker %s", strings.Join(c.WithDefaults().Listen, ", "))
	if c.Admin != "" {
		fmt.Fprintf(w, "; admin %s", c.Admin)
	}
	fmt.Fprintln(w)
	if !c.Access.None() {
		fmt.Fprintf(w, "  users: %d, and those of the file of passwords: %v\n", len(c.Access.Users), c.Access.Passwords != "")
	}
	fmt.Fprintf(w, "  anonymous clients: from %s\n", c.Access.From())
	for i := range c.Limits {
		l := &c.Limits[i]
		words := []string{fmt.Sprintf("%g messages/s, %g at once", l.Rate, l.Burst)}
		if strings.ContainsAny(l.Filter, "+#") {
			if l.Shared {
				words = append(words, "all topics together")
			} else {
				words = append(words, "each topic")
			}
		}
		if l.Police {
			words = append(words, "more is refused")
		} else {
			words = append(words, "more waits")
		}
		fmt.Fprintf(w, "  limit %d: %s: %s\n", i+1, l.Filter, strings.Join(words, ", "))
	}
}

// describeShare prints what classes of requests get.
func describeShare(w io.Writer, s proxy.Share) {
	switch s.Order {
	case proxy.NoClasses:
		return
	case proxy.FixedShare:
		fmt.Fprintf(w, "  share: interactive requests have %g of the slots\n", s.Weight)
	case proxy.LearnedShare:
		fmt.Fprintf(w, "  share: interactive requests have up to %g of the slots; the others may take up to %g %% longer, and up to %g %% more of them may give up\n",
			s.MaxWeight, 100*s.MaxHarm, 100*s.MaxLoss)
	default:
		fmt.Fprintf(w, "  share: %v\n", s.Order)
	}
	for i, o := range s.Classes {
		var when []string
		for _, m := range [...]struct{ name, value string }{{"caller", o.Caller}, {"callee", o.Callee}, {"method", o.Method}} {
			if m.value != "" {
				when = append(when, m.name+" "+m.value)
			}
		}
		if len(when) == 0 {
			when = []string{"every request"}
		}
		fmt.Fprintf(w, "  class %d: %s: %v\n", i+1, strings.Join(when, ", "), o.Class)
	}
}

// describeRules prints workflows and rules.
func describeRules(w io.Writer, c *proxy.Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Workflows)) {
		f := c.Workflows[name]
		var words []string
		if f.Weight != 0 {
			words = append(words, fmt.Sprintf("weight %g", f.Weight))
		}
		if f.Guarantee != 0 {
			words = append(words, fmt.Sprintf("guarantee %g requests/s", f.Guarantee))
		}
		words = append(words, rank(&f.Class, &f.Priority, f.Deadline)...)
		fmt.Fprintf(w, "  workflow %s: %s\n", name, strings.Join(words, ", "))
	}
	for i, r := range c.Rules {
		var when, then []string
		add := func(name string, values []string) {
			if len(values) > 0 {
				when = append(when, name+" "+strings.Join(values, " or "))
			}
		}
		if r.Match.Baggage != classify.NoBaggage {
			add("baggage", []string{r.Match.Baggage.String()})
		}
		var headers, peers []string
		for _, h := range r.Match.Header {
			if headers = append(headers, h.Name); h.Value != "" {
				headers[len(headers)-1] += "=" + h.Value
			}
		}
		for _, p := range r.Match.Peer {
			peers = append(peers, p.String())
		}
		add("header", headers)
		add("path", r.Match.Path)
		add("method", r.Match.Method)
		add("host", r.Match.Host)
		add("peer", peers)
		var prefixes []string
		for _, p := range r.Match.EtcdRange {
			prefixes = append(prefixes, strconv.Quote(p))
		}
		add("etcd range over", prefixes)
		if len(when) == 0 {
			when = []string{"every request"}
		}
		switch s := &r.Set; {
		case s.Workflow != "":
			then = append(then, "workflow "+s.Workflow)
		case s.WorkflowHeader != "":
			then = append(then, "workflow named by "+s.WorkflowHeader)
		}
		then = append(then, rank(r.Set.Class, r.Set.Priority, r.Set.Deadline)...)
		then = append(then, used(&r.Set.Use)...)
		if len(then) == 0 {
			then = []string{"as the request says, if it is trusted"}
		}
		fmt.Fprintf(w, "  rule %d: %s: %s\n", i+1, strings.Join(when, ", "), strings.Join(then, ", "))
	}
}

// used describes what a rule says of the server.
func used(u *classify.Use) (words []string) {
	for _, w := range [...]struct{ name, value string }{{"kind", u.Kind}, {"holds", u.Holds}, {"needs", u.Needs}} {
		if w.value != "" {
			words = append(words, w.name+" "+strconv.Quote(w.value))
		}
	}
	if u.AtOnce > 0 {
		words = append(words, fmt.Sprintf("at most %d at once", u.AtOnce))
	}
	if u.NoCancel {
		words = append(words, "not cancelled")
	}
	return words
}

// rank describes what is not nil.
func rank(class *work.Class, priority *work.Priority, deadline time.Duration) (words []string) {
	if class != nil {
		words = append(words, "class "+class.String())
	}
	if priority != nil {
		words = append(words, fmt.Sprintf("priority %d", *priority))
	}
	if deadline > 0 {
		words = append(words, fmt.Sprintf("deadline %v", deadline))
	}
	return words
}
