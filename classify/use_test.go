package classify

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a rule says of the server is checked like the rest.
func TestUseMistakes(t *testing.T) {
	rules := func(use ...Use) (c Config) {
		for i, u := range use {
			c.Rules = append(c.Rules, Rule{Match: Match{Path: []string{"/" + strconv.Itoa(i)}}, Set: Set{Use: u}})
		}
		return c
	}
	many := make([]Use, MaxResources+1)
	for i := range many {
		many[i].Holds = "r" + strconv.Itoa(i)
	}
	for name, tt := range map[string]struct {
		in   Config
		want []string
	}{
		"nothing":         {rules(Use{}), nil},
		"all of it":       {rules(Use{Kind: "exports", Holds: "table", Needs: "log", AtOnce: 1, NoCancel: true}), nil},
		"what it holds":   {rules(Use{Holds: "table", Needs: "table"}), []string{"rules[0].set.needs"}},
		"no name":         {rules(Use{Kind: "a\nb", Holds: strings.Repeat("x", 65)}), []string{"rules[0].set.kind", "rules[0].set.holds"}},
		"bounds":          {rules(Use{AtOnce: -1}, Use{AtOnce: 1_000_001}), []string{"rules[0].set.at_once", "rules[1].set.at_once"}},
		"too many names":  {rules(many...), []string{"rules"}},
		"as many as fit":  {rules(many[1:]...), nil},
		"a long prefix":   {Config{Rules: []Rule{{Match: Match{EtcdRange: []string{"", strings.Repeat("k", 257)}}}}}, []string{"rules[0].match.etcd_range[1]"}},
		"not every call":  {Config{Rules: []Rule{{Match: Match{EtcdRange: []string{""}}}, {}}}, nil},
		"too many ranges": {Config{Rules: []Rule{{Match: Match{EtcdRange: make([]string, 65)}}}}, []string{"rules[0].match.etcd_range"}},
	} {
		var got []string
		tt.in.Check(func(field, value, want string) { got = append(got, field) })
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: mistakes at %q, expected %q", name, got, tt.want)
		}
	}
}
