package topics

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/placement"
)

// instant converts seconds.
func instant(seconds float64) mono.Time { return mono.Time(math.Round(seconds * 1e9)) }

// fixed parts are never changed.
type fixed struct{ parts []placement.Bucket }

func (f fixed) report(float64, int, placement.Report) {}
func (f fixed) step(float64)                          {}
func (f fixed) part(i int) placement.Grant {
	return placement.Grant{Bucket: f.parts[i], Expires: mono.Never}
}

// even divides evenly, once.
func even(b placement.Bucket, n int) fixed {
	f := fixed{make([]placement.Bucket, n)}
	for i := range f.parts {
		f.parts[i] = b.Split(1 / float64(n))
	}
	return f
}

// adaptor is ours.
type adaptor struct{ *placement.Adaptor }

func newAdaptor(b placement.Bucket, n int) adaptor {
	a, err := placement.NewAdaptor(0, placement.AdaptorConfig{Bucket: b, Brokers: n})
	if err != nil {
		panic(err) // a setting of the lab itself
	}
	return adaptor{a}
}

func (a adaptor) report(now float64, broker int, r placement.Report) {
	a.Report(instant(now), broker, r)
}
func (a adaptor) step(now float64)                { a.Step(instant(now)) }
func (a adaptor) part(broker int) placement.Grant { return a.Grant(broker) }

// Times of leases, in seconds: how often one is renewed, and how long it lasts, as Doorman's defaults are.
const (
	renewal   = 5
	leaseTime = 20
)

// leases divides the rate by leases that brokers renew, each with what it wants: what is wanted if there is enough,
// else an equal share and, of what others leave of theirs, a part in proportion to what is wanted beyond. Never
// more is leased than there is. A burst goes with its rate.
type leases struct {
	whole    placement.Bucket
	brokers  []leased
	versions uint64
}

type leased struct {
	wants, renewed, until float64
	messages, since       float64
	grant                 placement.Grant
	had                   float64 // what it obeys until it has heard of the grant, in messages a second
}

func newLeases(b placement.Bucket, n int) *leases {
	l := &leases{whole: b, brokers: make([]leased, n)}
	for i := range l.brokers {
		l.brokers[i] = leased{until: leaseTime, renewed: -float64(i), grant: placement.Grant{Bucket: b.Split(1 / float64(n)), Expires: instant(leaseTime)}}
	}
	return l
}

func (l *leases) report(now float64, broker int, r placement.Report) {
	b := &l.brokers[broker]
	b.messages += r.Messages
	if r.Version == b.grant.Version {
		b.had = 0
	}
	if now-b.renewed < renewal-stepped/2. {
		return
	}
	// Room to spare as the whole topic has it, and what waits, to be gone by the next time.
	b.wants = (1.1*b.messages + r.Waiting) / (now - b.since)
	b.messages, b.since, b.renewed = 0, now, now
	l.renew(now, broker)
}

// renew leases what there is.
func (l *leases) renew(now float64, broker int) {
	n := float64(len(l.brokers))
	wanted, free, beyond, unused := 0.0, l.whole.Rate, 0.0, 0.0
	equal := l.whole.Rate / n
	for i := range l.brokers {
		b := &l.brokers[i]
		if i != broker && now < b.until {
			free -= max(b.had, b.grant.Rate)
		}
		wanted += b.wants
		beyond += max(0, b.wants-equal)
		unused += max(0, equal-b.wants)
	}
	b := &l.brokers[broker]
	rate := b.wants
	if wanted > l.whole.Rate && b.wants > equal {
		rate = equal + unused*(b.wants-equal)/beyond
	}
	rate = max(0.001*l.whole.Rate, min(rate, free))
	l.versions++
	b.until, b.had = now+leaseTime, max(b.had, b.grant.Rate)
	b.grant = placement.Grant{Bucket: l.whole.Split(rate / l.whole.Rate), Version: l.versions, Expires: instant(b.until)}
}

func (l *leases) step(float64) {}

func (l *leases) part(broker int) placement.Grant { return l.brokers[broker].grant }

// adaptorWindow is that of ours.
const adaptorWindow = float64(10*time.Second) / 1e9
