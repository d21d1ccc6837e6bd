package guard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// Rule says which tasks it is about. A field that is empty fits all, and a rule fits a
// task if all its fields do.
type Rule struct {
	// User, Application and Database are as the server shows them. In a rule, * stands for any characters or none, and
	// ? for any one.
	User, Application, Database string
	// Fingerprint is that of a statement as logs show it, 16 hexadecimal digits.
	Fingerprint string
	// Kind is a class of statements: a word of statement.ClassNames. Sessions that are barred under
	// the same word belong to it too, such as the SELECTs of a dump to backup.
	Kind string
}

// Rules say which tasks a guard may cancel, beside those that a server makes dangerous: replication,
// changes of tables, backups and maintenance are barred unless a rule allows them.
type Rules struct {
	// Allow lifts the bar from what a rule names.
	Allow []Rule
	// Only restricts cancels to what Allow names. Default: what is not barred needs no
	// rule.
	Only bool
	// Deny bars what a rule names, whatever Allow says, and what may be that: a task file has names for some hundred kinds of
	// requests, and of a further one the guard knows no more than the fingerprint; MariaDB and MySQL do not tell what an idle session
	// has run, if that was too short to be seen.
	Deny []Rule
	// Background names what has no latency objective, such as nightly reports.
	Background []Rule
}

// Check reports every mistake.
func (r *Rules) Check() (all []Mistake) {
	for _, list := range [...]struct {
		name  string
		rules []Rule
	}{{"allow", r.Allow}, {"deny", r.Deny}, {"background", r.Background}} {
		for i := range list.rules {
			all = append(all, list.rules[i].check(fmt.Sprintf("%s[%d]", list.name, i))...)
		}
	}
	return all
}

func (r *Rule) check(at string) (all []Mistake) {
	if *r == (Rule{}) {
		return []Mistake{{at, "an empty rule, which fits every task", "user, application, database, fingerprint or kind"}}
	}
	if n, err := strconv.ParseUint(r.Fingerprint, 16, 64); r.Fingerprint != "" && (err != nil || n == 0) {
		all = append(all, Mistake{at + ".fingerprint", strconv.Quote(r.Fingerprint), "up to 16 hexadecimal digits, as logs show them"})
	}
	if _, ok := statement.ParseClass(r.Kind); r.Kind != "" && !ok {
		all = append(all, Mistake{at + ".kind", strconv.Quote(r.Kind), "one of " + strings.Join(statement.ClassNames(), ", ")})
	}
	return all
}

// fits reports whether the rule is about a session, which is barred so unless a rule allows it.
func (r *Rule) fits(s *track.Session, barred culprit.Bar) bool {
	fit := func(pattern, name string) bool { return pattern == "" || matches(pattern, name) }
	if !fit(r.User, s.User) || !fit(r.Application, s.Application) || !fit(r.Database, s.Database) {
		return false
	}
	if r.Fingerprint != "" {
		if n, _ := strconv.ParseUint(r.Fingerprint, 16, 64); n != s.Statement.Fingerprint {
			return false
		}
	}
	return r.Kind == "" || r.Kind == s.Statement.Class.String() || r.Kind == barred.String()
}

// mayFit reports whether the rule is about a session for all that is known of it. Of one that is nameless, only user, fingerprint and an
// application that is there tell; of one whose statement no look has seen, all but that.
func (r *Rule) mayFit(s *track.Session, barred culprit.Bar) bool {
	known := *r
	switch {
	case s.Nameless:
		known = Rule{User: r.User, Fingerprint: r.Fingerprint}
		if s.Application != "" {
			known.Application = r.Application
		}
	case s.Statement == (statement.Statement{}):
		known.Fingerprint, known.Kind = "", ""
	}
	return known.fits(s, barred)
}

// matches reports whether a name is as a pattern says, in which * stands for any characters or none, a / too, and ? for
// any one.
func matches(pattern, name string) bool {
	p, n := []rune(pattern), []rune(name)
	star, from := -1, 0 // the last * of the pattern, and what of the name comes behind what it stands for
	i := 0
	for k := 0; k < len(n); {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, k
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[k]):
			i, k = i+1, k+1
		case star >= 0:
			from++
			i, k = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

func anyFits(rules []Rule, s *track.Session, barred culprit.Bar) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.fits(s, barred) })
}

// apply enters the rules into a look.
func (r *Rules) apply(l *track.Look) {
	if len(r.Allow)+len(r.Deny)+len(r.Background) == 0 && !r.Only {
		return
	}
	for i := range l.Late {
		if f := &l.Sample.Finished; f.Late > 0 && anyFits(r.Background, &l.Late[i], culprit.NotBarred) {
			f.Late--
		}
	}
	for i := range l.Sessions {
		s, t := &l.Sessions[i], &l.Sample.Tasks[i]
		t.Background = t.Background || anyFits(r.Background, s, t.Barred)
		switch allowed := anyFits(r.Allow, s, t.Barred); {
		case slices.ContainsFunc(r.Deny, func(r Rule) bool { return r.mayFit(s, t.Barred) }), r.Only && !allowed:
			t.Barred = culprit.Denied
		case allowed:
			t.Barred = culprit.NotBarred
		}
	}
}
