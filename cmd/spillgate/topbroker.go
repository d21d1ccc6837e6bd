package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/internal/table"
)

// topBroker is what a broker carries.
type topBroker struct {
	Connections   map[string]int `json:"connections"` // by protocol
	Sessions      int            `json:"sessions"`
	Subscriptions int            `json:"subscriptions"`
	// Topics are the limits with the topics that each covers, and the topics without
	// one, those first that have the most to do.
	Topics []topTopic `json:"topics"`
	// Dropped counts messages to clients, by reason.
	Dropped map[string]uint64 `json:"dropped,omitempty"`
}

// topTopic is one limit, which may cover several topics. Its delays and its rate are
// those of the last ten seconds.
type topTopic struct {
	broker.LimitStatus
	// Flow is per second since the look before; nil at the first look and after a
	// restart.
	Flow *topRelease `json:"per_second,omitempty"`
}

// topRelease is what a limit let go and refused.
type topRelease struct {
	Released float64            `json:"released"`
	Sheds    map[string]float64 `json:"sheds,omitempty"`
}

// brokerKeys are those by which the status of a broker is known.
var brokerKeys = [...]string{"limits", "protocols", "retained_bytes"}

// topBrokerStatus enters the status of a broker. It reports false if the document is
// not one.
func (s *topSource) topBrokerStatus(text []byte) bool {
	var keys map[string]json.RawMessage
	var doc broker.Status
	if json.Unmarshal(text, &keys) != nil {
		return false
	}
	for _, k := range brokerKeys {
		if keys[k] == nil {
			return false
		}
	}
	if json.Unmarshal(text, &doc) != nil {
		return false
	}
	b := &topBroker{Connections: map[string]int{}, Sessions: doc.Sessions, Subscriptions: doc.Subscriptions, Dropped: doc.Dropped}
	for name, p := range doc.Protocols {
		if p.Connections > 0 && len(b.Connections) < mostShown {
			b.Connections[name] = p.Connections
		}
	}
	for _, l := range doc.Limits {
		b.Topics = append(b.Topics, topTopic{LimitStatus: l})
	}
	slices.SortStableFunc(b.Topics, func(a, b topTopic) int {
		return cmp.Or(cmp.Compare(b.Backlog, a.Backlog), cmp.Compare(b.Rate, a.Rate), strings.Compare(a.Filter, b.Filter))
	})
	b.Topics = b.Topics[:min(len(b.Topics), mostShown)]
	s.Kind, s.Phase, s.Broker = "broker", doc.Phase, b
	return true
}

// since fills in the rates between two looks at a broker.
func (b *topBroker) since(before *topBroker, dt time.Duration) {
	if before == nil || dt <= 0 {
		return
	}
	old := map[string]*topTopic{}
	for i := range before.Topics {
		old[before.Topics[i].Filter] = &before.Topics[i]
	}
	for i := range b.Topics {
		t := &b.Topics[i]
		was := old[t.Filter]
		if was == nil || t.Released < was.Released {
			continue
		}
		t.Flow = &topRelease{Released: float64(t.Released-was.Released) / dt.Seconds()}
		for reason, n := range t.Refused {
			if d := n - was.Refused[reason]; n > was.Refused[reason] {
				add(&t.Flow.Sheds, reason, float64(d)/dt.Seconds())
			}
		}
	}
}

// brokerLines says which clients are connected.
func brokerLines(b *topBroker) []string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(b.Connections)) {
		words = append(words, fmt.Sprintf("%s %d", name, b.Connections[name]))
	}
	if len(words) == 0 {
		words = []string{"none"}
	}
	all := []string{clean(fmt.Sprintf("connections: %s  sessions %d  subscriptions %d", strings.Join(words, ", "), b.Sessions, b.Subscriptions))}
	dropped := map[string]float64{}
	for reason, n := range b.Dropped {
		if n > 0 {
			dropped[reason] = float64(n)
		}
	}
	if text := reasons(dropped); text != "" {
		all = append(all, clean("dropped so far: "+text))
	}
	return all
}

// topicsTable shows what each limit carries. Access is the wait for tokens, and
// processing all other time in the broker.
func topicsTable(topics []topTopic) *table.Table {
	t := &table.Table{Columns: columns("topics", "n", "rate/s", "limit/s", "backlog", "access p99", "proc p99", "refused/s")}
	for i := range topics {
		l := &topics[i]
		rate, limit, sheds := short(l.Rate), "", ""
		if f := l.Flow; f != nil {
			rate = short(f.Released)
			sum := 0.0
			for _, n := range f.Sheds {
				sum += n
			}
			sheds = short(sum)
		}
		if l.Limit > 0 {
			limit = short(l.Limit)
		}
		name := l.Filter
		if l.Filter == "none" {
			name = "(without a limit)"
		}
		t.Add(clean(name), fmt.Sprint(l.Topics), rate, limit, fmt.Sprint(l.Backlog), seconds(l.Access.P99), seconds(l.Processing.P99), sheds)
	}
	return t
}

// topicLines says in words why messages of a limit were refused.
func topicLines(t *topTopic) (all []string) {
	if t.Flow != nil {
		if text := reasons(t.Flow.Sheds); text != "" {
			all = append(all, clean(t.Filter+"  refused/s: "+text))
		}
	}
	return all
}
