package track

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// A clock that is set forward makes nothing older that began before, also where the looks around that took long; one that goes on, a
// little faster or later told, is left as it is.
func TestClockThatIsSet(t *testing.T) {
	const ms = time.Millisecond
	began := time.Unix(1_000_000, 0)
	for name, set := range map[string]time.Duration{"not at all": 0, "steered": 50 * ms, "back": -time.Hour, "an hour forward": time.Hour, "a second forward": time.Second} {
		var c Clock
		at, ahead := mono.Time(time.Hour), time.Duration(0)
		for look := range 20 {
			if look == 10 {
				ahead = set
			}
			took := time.Duration(look%3) * 40 * ms
			now := began.Add(time.Duration(at) + took/2 + ahead)
			c.Look(now, at, at.Add(took))
			for age := range 5 { // tasks that began so many looks ago
				if age > look {
					continue
				}
				then := began.Add(time.Duration(at) - time.Duration(age)*100*ms)
				if look-age >= 10 && look >= 10 {
					then = then.Add(ahead)
				}
				got := now.Sub(c.Now(then)) - took/2
				if want := time.Duration(age) * 100 * ms; set > 0 && got > want+50*ms || set <= 0 && look < 10 && got != want || look-age >= 11 && got != want {
					t.Errorf("%s, look %d: a task looks %v old, expected %v", name, look, got, want)
				}
			}
			at = at.Add(100 * ms)
		}
	}
	var zero Clock
	if zero.Now(time.Time{}) != (time.Time{}) {
		t.Error("no instant became one")
	}
}
