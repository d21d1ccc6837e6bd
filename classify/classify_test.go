package classify

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func ptr[T any](v T) *T { return &v }

// shop is a configuration with a rule of each kind.
func shop() Config {
	return Config{
		Workflows: map[string]Defaults{
			"checkout":  {Class: work.Interactive, Deadline: 300 * time.Millisecond},
			"search":    {Priority: 5},
			"acme":      {},
			DefaultName: {Priority: 9, Deadline: time.Second},
		},
		Rules: []Rule{
			{Match{Baggage: TrustedBaggage}, Set{}},
			{Match{Path: []string{"/checkout/", "/users/*/cart"}, Method: []string{"POST", "PUT"}}, Set{Workflow: "checkout", Priority: ptr(work.Priority(1))}},
			{Match{Header: []Header{{"x-bot", ""}, {"User-Agent", "curl"}}}, Set{Workflow: DefaultName, Priority: ptr(work.MaxPriority), Class: ptr(work.Default)}},
			{Match{Host: []string{"search.example.com", "*.search.example.com"}}, Set{Workflow: "search", Deadline: 50 * time.Millisecond, Objective: 20 * time.Millisecond}},
			{Match{Peer: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}, Set{Class: ptr(work.Interactive)}},
			{Match{Header: []Header{{"X-Partner", "1"}}, Baggage: AnyBaggage}, Set{}},
			{Match{Header: []Header{{"X-Tenant", ""}}}, Set{WorkflowHeader: "X-TENANT"}},
		},
	}
}

func compile(t testing.TB, cfg Config) *Rules {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRules(t *testing.T) {
	rules := compile(t, shop())
	claims := Rank{"other", work.Interactive, 3}
	head := func(kv ...string) map[string][]string {
		h := map[string][]string{}
		for i := 0; i < len(kv); i += 2 {
			h[kv[i]] = append(h[kv[i]], kv[i+1])
		}
		return h
	}
	rest := Rank{"", work.Default, 9}
	for _, test := range []struct {
		name string
		f    Facts
		want Result
	}{
		{"nothing", Facts{}, Result{rest, time.Second, -1, 0, Use{}, false, Places{}}},
		// What strangers claim counts for nothing, what friends claim comes first.
		{"a stranger's tags", Facts{Claims: claims}, Result{rest, time.Second, -1, 0, Use{}, false, Places{}}},
		{"a friend's tags", Facts{Claims: claims, Trusted: true}, Result{claims, time.Second, 0, 0, Use{}, false, Places{}}},
		{"a friend's tags before paths", Facts{Claims: Rank{Workflow: "search"}, Trusted: true, Method: "POST", Path: "/checkout/"}, Result{Rank{"search", 0, 5}, 0, 0, 0, Use{}, false, Places{}}},
		{"a friend without tags", Facts{Trusted: true, Method: "POST", Path: "/checkout/"}, Result{Rank{"checkout", work.Interactive, 1}, 300 * time.Millisecond, 1, 0, Use{}, false, Places{}}},
		{"path", Facts{Method: "PUT", Path: "/checkout/7"}, Result{Rank{"checkout", work.Interactive, 1}, 300 * time.Millisecond, 1, 0, Use{}, false, Places{}}},
		{"path with a star", Facts{Method: "POST", Path: "/users/7/cart"}, Result{Rank{"checkout", work.Interactive, 1}, 300 * time.Millisecond, 1, 0, Use{}, false, Places{}}},
		{"another method", Facts{Method: "GET", Path: "/checkout/7"}, Result{rest, time.Second, -1, 0, Use{}, false, Places{}}},
		{"another path", Facts{Method: "POST", Path: "/users/7/8/cart"}, Result{rest, time.Second, -1, 0, Use{}, false, Places{}}},
		{"a header that is there", Facts{Header: head("X-Bot", "")}, Result{Rank{"", 0, 127}, time.Second, 2, 0, Use{}, true, Places{}}},
		{"a header's value", Facts{Header: head("User-Agent", "curl")}, Result{Rank{"", 0, 127}, time.Second, 2, 0, Use{}, true, Places{}}},
		{"another value", Facts{Header: head("User-Agent", "curl/8")}, Result{rest, time.Second, -1, 0, Use{}, false, Places{}}},
		{"the value twice", Facts{Header: head("User-Agent", "curl", "User-Agent", "curl")}, Result{rest, time.Second, -1, 0, Use{}, false, Places{}}},
		{"gRPC's spelling", Facts{Header: head("x-bot", "1"), Lower: true}, Result{Rank{"", 0, 127}, time.Second, 2, 0, Use{}, true, Places{}}},
		{"host", Facts{Host: "Search.Example.com:8080"}, Result{Rank{"search", 0, 5}, 50 * time.Millisecond, 3, 20 * time.Millisecond, Use{}, false, Places{}}},
		{"a host below", Facts{Host: "a.b.search.example.com."}, Result{Rank{"search", 0, 5}, 50 * time.Millisecond, 3, 20 * time.Millisecond, Use{}, false, Places{}}},
		{"a host that ends alike", Facts{Host: "research.example.com"}, Result{rest, time.Second, -1, 0, Use{}, false, Places{}}},
		{"peer", Facts{Peer: netip.MustParseAddr("10.1.2.3")}, Result{Rank{"", work.Interactive, 9}, time.Second, 4, 0, Use{}, true, Places{}}},
		{"peer of IPv6", Facts{Peer: netip.MustParseAddr("fd00::1")}, Result{Rank{"", work.Interactive, 9}, time.Second, 4, 0, Use{}, true, Places{}}},
		{"a rule that believes", Facts{Header: head("X-Partner", "1"), Claims: Rank{"acme", work.Interactive, 3}}, Result{Rank{"acme", work.Interactive, 3}, 0, 5, 0, Use{}, false, Places{}}},
		// A rule that believes does not make room for names that nobody listed.
		{"a rule that believes, unlisted", Facts{Header: head("X-Partner", "1"), Claims: claims}, Result{Rank{"", work.Interactive, 3}, time.Second, 5, 0, Use{}, false, Places{}}},
		{"tenant", Facts{Header: head("X-Tenant", "acme")}, Result{Rank{"acme", 0, 0}, 0, 6, 0, Use{}, false, Places{}}},
		{"a tenant's own tags", Facts{Header: head("X-Tenant", "acme"), Claims: claims}, Result{Rank{"acme", 0, 0}, 0, 6, 0, Use{}, false, Places{}}},
		{"unknown tenant", Facts{Header: head("X-Tenant", "who")}, Result{rest, time.Second, 6, 0, Use{}, false, Places{}}},
		{"two tenants", Facts{Header: head("X-Tenant", "acme", "X-Tenant", "search")}, Result{rest, time.Second, 6, 0, Use{}, false, Places{}}},
		{"no name", Facts{Header: head("X-Tenant", "a b")}, Result{rest, time.Second, 6, 0, Use{}, false, Places{}}},
		{"a very long name", Facts{Header: head("X-Tenant", strings.Repeat("a", 65))}, Result{rest, time.Second, 6, 0, Use{}, false, Places{}}},
		{"the default by name", Facts{Header: head("X-Tenant", "default")}, Result{rest, time.Second, 6, 0, Use{}, false, Places{}}},
	} {
		if got := rules.Classify(0, &test.f, nil); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestNames(t *testing.T) {
	n := NewNames(2)
	second := func(s int) mono.Time { return mono.Time(s) * mono.Time(time.Second) }
	for _, step := range []struct {
		at   int
		name string
		want bool
	}{
		{0, "a", true}, {0, "b", true}, {0, "c", false}, {0, "a", true},
		// b is silent for long enough, a is not.
		{59, "a", true}, {61, "c", true}, {61, "b", false}, {61, "a", true},
		{200, "x", true}, {200, "y", true}, {200, "a", false},
	} {
		if got := n.Keep(second(step.at), step.name); got != step.want {
			t.Errorf("%s at %d s: %v, want %v", step.name, step.at, got, step.want)
		}
		if n.Len() > 2 {
			t.Fatalf("%d names, room is for 2", n.Len())
		}
	}
	if NewNames(0).Keep(0, "a") || (*Names)(nil).Keep(0, "a") {
		t.Error("no room, and a name has it")
	}
	big := NewNames(1 << 30)
	for i := range 2 * MaxNames {
		big.Keep(0, fmt.Sprint(i))
	}
	if big.Len() != MaxNames {
		t.Errorf("%d names, want %d", big.Len(), MaxNames)
	}
	// With room, an unlisted tenant is told apart, and has the default's terms.
	f := Facts{Header: map[string][]string{"X-Tenant": {"who"}}}
	if got, want := compile(t, shop()).Classify(0, &f, NewNames(1)), (Result{Rank{"who", 0, 9}, time.Second, 6, 0, Use{}, false, Places{}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Every mistake is told at once, at its place.
func TestMistakes(t *testing.T) {
	long := make([]string, MaxChoices+1)
	for i := range long {
		long[i] = "/"
	}
	cfg := Config{
		Workflows: map[string]Defaults{"a b": {}, "x": {Class: 7, Priority: 200, Deadline: -1}},
		Rules: []Rule{
			{Match{Header: []Header{{"a b", ""}, {"host", "x"}, {"X", strings.Repeat("v", 257)}}, Path: []string{"a", "/a*", ""}, Method: []string{"get", "", "G T"},
				Host: []string{"", "a:80", "*", "a.*.b", "*."}, Peer: make([]netip.Prefix, 1), Baggage: 9}, Set{Workflow: "y", WorkflowHeader: "?", Deadline: 2 * time.Hour}},
			{Match{Path: long}, Set{Class: ptr(work.Class(9)), Priority: ptr(work.Priority(128)), WorkflowHeader: ""}},
			{},
			{},
		},
	}
	var got []string
	cfg.Check(func(field, value, want string) {
		if want == "" {
			t.Errorf("%s: nothing was expected", field)
		}
		got = append(got, field)
	})
	want := []string{
		"workflows.a b", "workflows.x.class", "workflows.x.priority", "workflows.x.deadline",
		"rules[0].match.header[0]", "rules[0].match.header[1]", "rules[0].match.header[2]",
		"rules[0].match.path[0]", "rules[0].match.path[1]", "rules[0].match.path[2]",
		"rules[0].match.method[0]", "rules[0].match.method[1]", "rules[0].match.method[2]",
		"rules[0].match.host[0]", "rules[0].match.host[1]", "rules[0].match.host[2]", "rules[0].match.host[3]", "rules[0].match.host[4]",
		"rules[0].match.peer[0]", "rules[0].match.baggage",
		"rules[0].set.workflow", "rules[0].set.workflow_header", "rules[0].set.workflow_header", "rules[0].set.deadline",
		"rules[1].match.path", "rules[1].set.class", "rules[1].set.priority",
		"rules[3]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("mistakes at\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := New(cfg); err == nil || strings.Count(err.Error(), "\n") != len(want)-1 {
		t.Errorf("New: %v", err)
	}
	if _, err := New(Config{Rules: make([]Rule, MaxRules+1)}); err == nil || !strings.Contains(err.Error(), "257 rules") {
		t.Errorf("too many rules: %v", err)
	}
}

// Patterns match what a regular expression made from them does.
func TestPatterns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(words []string) string {
		s := ""
		for range 1 + rng.IntN(4) {
			s += words[rng.IntN(len(words))]
		}
		return s
	}
	matches := 0
	for range 200_000 {
		pattern, text := "/"+random([]string{"a", "b", "/", "/*/", "/*"}), "/"+random([]string{"a", "b", "/", "ab"})
		if checkPath(pattern) != "" {
			continue
		}
		expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, "[^/]+")
		if strings.HasSuffix(pattern, "/") {
			expr += ".*"
		}
		want := regexp.MustCompile("^" + expr + "$").MatchString(text)
		p := newPath(pattern)
		if got := p.match(text); got != want {
			t.Fatalf("%s and %s: %v, want %v", pattern, text, got, want)
		}
		if want {
			matches++
		}
	}
	if matches < 1000 {
		t.Errorf("only %d matched", matches)
	}
	for _, pattern := range []string{"a.b", "*.b", "*.a.b", "B", "::1"} {
		for _, name := range []string{"a.b", "A.B", "a.a.b", "b", ".b", "", "a.b.c", "::1"} {
			want, _ := pathpkg.Match(strings.ToLower(pattern), strings.ToLower(name))
			if strings.HasPrefix(pattern, "*") && name == ".b" {
				want = false // nothing is below nothing
			}
			h := newHost(pattern)
			if got := h.match(name); got != want {
				t.Errorf("%s and %s: %v, want %v", pattern, name, got, want)
			}
		}
	}
	for in, want := range map[string]string{"a": "a", "a:80": "a", "a.:80": "a", "[::1]:80": "::1", "[::1]": "::1", "::1": "::1", "": "", "[": "", ":": ""} {
		if got := hostname(in); got != want {
			t.Errorf("hostname(%q) = %q, want %q", in, got, want)
		}
	}
}

// Of random rules the first that matches by a plain reading counts, and what a
// stranger says about himself changes nothing.
func TestFirstMatchWins(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pick := func(all ...string) []string {
		var some []string
		for _, s := range all {
			if rng.IntN(4) == 0 {
				some = append(some, s)
			}
		}
		return some
	}
	matched := map[int]int{}
	for range 20_000 {
		cfg := Config{Workflows: map[string]Defaults{}}
		for i := range 1 + rng.IntN(6) {
			name := fmt.Sprint("w", i)
			cfg.Workflows[name] = Defaults{}
			r := Rule{Match{Path: pick("/a", "/a/", "/b"), Method: pick("GET", "PUT"), Host: pick("x", "y")}, Set{Workflow: name}}
			for _, h := range pick("K=", "K=1", "L=") {
				n, v, _ := strings.Cut(h, "=")
				r.Match.Header = append(r.Match.Header, Header{n, v})
			}
			if r.Match.always() {
				r.Match.Baggage = TrustedBaggage
			}
			cfg.Rules = append(cfg.Rules, r)
		}
		f := Facts{Path: []string{"/a", "/a/b", "/b"}[rng.IntN(3)], Method: []string{"GET", "PUT"}[rng.IntN(2)], Host: []string{"x", "y"}[rng.IntN(2)],
			Header: map[string][]string{"K": pick("1", "2"), "L": pick("1")}}
		want := -1
		for i, r := range cfg.Rules {
			m := r.Match
			path := len(m.Path) == 0 || slices.ContainsFunc(m.Path, func(p string) bool { return p == f.Path || p == "/a/" && f.Path == "/a/b" })
			header := len(m.Header) == 0 || slices.ContainsFunc(m.Header, func(h Header) bool {
				v := f.Header[h.Name]
				return h.Value == "" && len(v) > 0 || slices.Equal(v, []string{h.Value})
			})
			if path && header && (len(m.Method) == 0 || slices.Contains(m.Method, f.Method)) && (len(m.Host) == 0 || slices.Contains(m.Host, f.Host)) && m.Baggage == NoBaggage {
				want = i
				break
			}
		}
		rules := compile(t, cfg)
		got := rules.Classify(0, &f, nil)
		if got.Rule != want || want >= 0 && got.Workflow != fmt.Sprint("w", want) || want < 0 && got.Workflow != "" {
			t.Fatalf("%+v of %+v: %+v, want rule %d", f, cfg.Rules, got, want)
		}
		f.Claims = Rank{"w0", work.Interactive, 1}
		if with := rules.Classify(0, &f, nil); with != got {
			t.Fatalf("a stranger's tags made %+v of %+v", with, got)
		}
		matched[want]++
	}
	if matched[-1] < 500 || matched[0] < 500 || matched[3] < 50 {
		t.Errorf("too few cases: %v", matched)
	}
}

func TestClassifyDoesNotAllocate(t *testing.T) {
	rules, names := compile(t, shop()), NewNames(4)
	f := Facts{Method: "GET", Path: "/users/8/cart", Host: "shop.example.com:8080", Peer: netip.MustParseAddr("192.0.2.1"),
		Header: map[string][]string{"X-Tenant": {"who"}}, Claims: Rank{"acme", 1, 1}}
	if n := testing.AllocsPerRun(1000, func() { rules.Classify(0, &f, names) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkClassify(b *testing.B) {
	rules, names := compile(b, shop()), NewNames(4)
	f := Facts{Method: "GET", Path: "/users/8/cart", Host: "shop.example.com:8080", Peer: netip.MustParseAddr("192.0.2.1"),
		Header: map[string][]string{"X-Tenant": {"who"}}, Claims: Rank{"acme", 1, 1}}
	b.ReportAllocs()
	for b.Loop() {
		rules.Classify(0, &f, names)
	}
}

// Whatever comes, the result is one that may go on: a name that can travel and is
// listed or has room, a rank that exists.
func FuzzClassify(f *testing.F) {
	f.Add("POST", "/checkout/", "a:80", "acme", "claimed", byte(1), byte(3), false)
	f.Add("", "", "[", "\xff", "a b", byte(9), byte(200), true)
	f.Add("GET", "/users//cart", "::::", "default", "default", byte(0), byte(127), true)
	f.Fuzz(func(t *testing.T, method, path, host, tenant, claim string, class, priority byte, trusted bool) {
		rules, names := compile(t, shop()), NewNames(1)
		names.Keep(0, "full")
		facts := Facts{Method: method, Path: path, Host: host, Header: map[string][]string{"X-Tenant": {tenant}}, Trusted: trusted,
			Claims: Rank{claim, work.Class(class), work.Priority(priority)}}
		got := rules.Classify(0, &facts, names)
		if got.Workflow != "" && !wire.ValidWorkflow(got.Workflow) || got.Class >= work.NumClasses || got.Priority > work.MaxPriority || got.Deadline < 0 || got.Deadline > MaxDeadline {
			t.Fatalf("%+v", got)
		}
		if !trusted && !rules.Listed(got.Workflow) && got.Workflow != "full" {
			t.Fatalf("a stranger made the workflow %q", got.Workflow)
		}
	})
}
