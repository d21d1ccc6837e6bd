package readmit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
	"github.com/spillgate/spillgate/internal/wire"
)

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var l *List
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var at time.Duration
			var kind, token, n int
			var what string
			d.MaybeScanArgs(t, "kind", &kind)
			d.MaybeScanArgs(t, "token", &token)
			d.MaybeScanArgs(t, "n", &n)
			well, background, admitted := d.HasArg("well"), d.HasArg("background"), d.HasArg("admitted")
			if d.HasArg("at") {
				d.ScanArgs(t, "at", &what)
				at, _ = time.ParseDuration(what)
			}
			now, key := mono.Time(at), wire.Token{byte(token)}
			switch d.Cmd {
			case "new":
				l, _ = New(Config{Objective: 100 * time.Millisecond, Tokens: n})
			case "look":
				l.Observe(now, well)
			case "limit":
				l.Limit(uint64(kind), now)
			case "issue":
				return fmt.Sprintf("again after %v\n", l.Issue(now, key, uint64(kind), background))
			case "ask":
				a, wait := l.Ask(now, uint64(kind), key)
				if wait > 0 {
					return fmt.Sprintf("%v, in %v\n", a, wait)
				}
				return a.String() + "\n"
			case "used":
				l.Used(key, admitted)
			default:
				d.Fatalf(t, "unknown command")
			}
			return fmt.Sprintf("%d tokens, %d limits\n", l.Tokens(), l.Limits())
		})
	})
}

// Whatever comes, a token protects one request at most, and there are no more tokens
// and limits than allowed.
func TestTokensProtectOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := New(Config{Objective: time.Millisecond, Tokens: 4, Kinds: 3})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		used := map[wire.Token]int{}
		next := byte(0)
		for range rapid.IntRange(1, 100).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "pause")))
			token, kind := wire.Token{rapid.ByteRange(1, 20).Draw(t, "token")}, rapid.Uint64Range(1, 5).Draw(t, "kind")
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				if next++; next < 20 {
					l.Issue(now, wire.Token{next}, kind, rapid.Bool().Draw(t, "background"))
				}
			case 1:
				l.Limit(kind, now.Add(time.Second))
			case 2:
				l.Observe(now, rapid.Bool().Draw(t, "well"))
			default:
				if a, _ := l.Ask(now, kind, token); a == Protect {
					let := rapid.Bool().Draw(t, "admitted")
					l.Used(token, let)
					if let {
						used[token]++
					}
				}
			}
			if used[token] > 1 {
				t.Fatalf("token %x protected %d requests, expected one", token, used[token])
			}
			if l.Tokens() > 4 || l.Limits() > 3 {
				t.Fatalf("%d tokens and %d limits, expected at most 4 and 3", l.Tokens(), l.Limits())
			}
		}
	})
}

func TestMistakesAreToldTogether(t *testing.T) {
	_, err := New(Config{Calm: -1, Keep: 2 * time.Hour, Tokens: -1, Kinds: 1 << 20})
	for _, want := range []string{"Objective", "Calm", "Keep", "Tokens", "Kinds"} {
		if err == nil || !strings.Contains(err.Error(), want+" is ") {
			t.Errorf("the error %v does not tell of %s", err, want)
		}
	}
}
