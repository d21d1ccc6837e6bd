package chains

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/config"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/proxy"
)

func expect(t *testing.T, err error, all ...string) {
	t.Helper()
	for _, want := range all {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestLoadReportsEveryMistake(t *testing.T) {
	expect(t, Load{Chains: openloop.Profile{{Rate: -1, For: time.Second}}, Least: 5, Most: 4, From: time.Second, Window: 1,
		Patience: [work.NumClasses]time.Duration{-1}}.validate(), "rate is -1", "Least and Most are 5 and 4", "From is 1s", "Window is 1ns", "Patience of default is -1ns")
	expect(t, Load{}.validate(), "neither chains nor singles")
	if err := (Load{Singles: openloop.Steady(1, time.Second)}).validate(); err != nil {
		t.Error(err)
	}
}

func TestResultSumsUp(t *testing.T) {
	l := Load{Singles: openloop.Steady(1, 3*time.Second), From: time.Second}
	s := &sender{}
	for i := range 100 {
		s.samples = append(s.samples, sample{at: time.Second + time.Duration(i)*ms, took: time.Duration(100-i) * ms, kind: measure.Served})
	}
	s.samples = append(s.samples,
		sample{at: 0, took: time.Hour, kind: measure.Served}, // before From
		sample{at: 2 * time.Second, took: ms, kind: measure.TimedOut},
		sample{at: 2 * time.Second, took: ms, kind: measure.Refused},
		sample{at: 9 * time.Second, took: ms, kind: measure.Failed})
	got := s.result(l)
	series := got.Series
	got.Series = nil
	want := ClassResult{Offered: 103, Served: 100, Abandoned: 1, Refused: 1, Failed: 1, Mean: 50*ms + ms/2, P50: 51 * ms, P95: 96 * ms, P99: 100 * ms}
	if !equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	wantSeries := []Stretch{{1, 1, 0, time.Hour}, {100, 100, 0, 50*ms + ms/2}, {3, 0, 1, 0}}
	if !slices.Equal(series, wantSeries) {
		t.Errorf("series %+v, want %+v", series, wantSeries)
	}
}

func equal(a, b ClassResult) bool {
	return a.Offered == b.Offered && a.Served == b.Served && a.Abandoned == b.Abandoned && a.Refused == b.Refused &&
		a.Failed == b.Failed && a.Mean == b.Mean && a.P50 == b.P50 && a.P95 == b.P95 && a.P99 == b.P99
}

func TestParseStep(t *testing.T) {
	for _, c := range []struct {
		url        string
		size, hops int
		next, err  string
	}{
		{"/step/page", 0, 0, "", ""},
		{"/step/page?size=150", 150, 0, "", ""},
		{"/step/order?size=7&route=81", 7, 1, "http://127.0.0.1:81/step/order?size=7", ""},
		{"/step/order?size=7&route=81,82,83", 7, 3, "http://127.0.0.1:81/step/order?size=7&route=82,83", ""},
		{"/step/", 0, 0, "", "/step/FUNCTION"},
		{"/step/a/b", 0, 0, "", "/step/FUNCTION"},
		{"/other", 0, 0, "", "/step/FUNCTION"},
		{"/step/page?size=-1", 0, 0, "", "size: expected"},
		{"/step/page?size=99999999", 0, 0, "", "size: expected"},
		{"/step/page?size=x", 0, 0, "", "size: expected"},
		{"/step/order?route=0", 0, 0, "", "route: expected"},
		{"/step/order?route=81,,82", 0, 0, "", "route: expected"},
		{"/step/order?route=81@evil", 0, 0, "", "route: expected"},
		{"/step/order?route=" + strings.Repeat("81,", 40) + "81", 0, 0, "", "at most 64"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		size, hops, next, err := parseStep(u)
		if c.err != "" {
			expect(t, err, c.err)
			continue
		}
		if err != nil || size != c.size || hops != c.hops || next != c.next {
			t.Errorf("%s: %d, %d, %q, %v", c.url, size, hops, next, err)
		}
	}
}

// Whatever is asked for, a service calls nobody but this machine, and every call
// shortens the route.
func FuzzParseStep(f *testing.F) {
	f.Add("/step/order?size=7&route=81,82")
	f.Add("/step/page?size=1e3&route=%31")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		size, hops, next, err := parseStep(u)
		if err != nil || hops == 0 {
			return
		}
		v, err := url.Parse(next)
		if err != nil || v.Hostname() != "127.0.0.1" {
			t.Fatalf("%q goes on to %q", text, next)
		}
		size2, hops2, _, err := parseStep(v)
		if err != nil || size2 != size || hops2 != hops-1 {
			t.Fatalf("%q goes on to %q: %d bytes, %d hops, %v", text, next, size2, hops2, err)
		}
	})
}

func TestSpanKeepsTheTrace(t *testing.T) {
	first := span("")
	second := span(first)
	a, b := strings.Split(first, "-"), strings.Split(second, "-")
	if len(first) != 55 || len(second) != 55 || a[1] != b[1] || a[2] == b[2] {
		t.Errorf("%s, then %s: want the same trace and another span", first, second)
	}
	if other := span("00-short-00-01"); len(other) != 55 {
		t.Errorf("of a bad one: %s", other)
	}
}

func TestModeFile(t *testing.T) {
	s := Setting{Workers: 3}
	for _, m := range append(Modes(), Ordered()...) {
		text := m.file(s, "server0", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5")
		f, err := config.Decode(m.Name, []byte(text))
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		p := f.Proxy
		if m.Name == "" || p.Upstreams[0].URL != "http://127.0.0.1:3" || len(p.Egress) > 0 != m.Egress {
			t.Errorf("%+v", p)
		}
		if m.Egress && (p.Egress[0] != proxy.Egress{Address: "127.0.0.1:4", URL: "http://127.0.0.1:5"} || p.Slots != proxy.Slots{Min: 3, Max: 3} || p.Share.Order.String() != m.Name) {
			t.Errorf("%+v", p)
		}
	}
}
