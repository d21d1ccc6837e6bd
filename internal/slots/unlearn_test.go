package slots

import "testing"

// TestUnlearnALine: a trial that went down from 60 to 30 found that requests end in the order of 20 in line, so 22 run,
// and the ranks move with what runs: there is no line. What is known then is that 200/s were done before and that one
// takes 160 ms, which keeps 32 busy. Had nothing lowered the limit for the line, nothing would be known.
func TestUnlearnALine(t *testing.T) {
	const perSecond, ms = 1e-9, 1e6
	for _, tt := range []struct {
		name    string
		lowered point
		want    float64 // the knee
	}{
		{"lowered", point{concurrency: 60, throughput: 200 * perSecond, residence: 300 * ms, samples: 240}, 32},
		{"not lowered", point{}, 20},
	} {
		l, err := New(Config{Slack: 38 * ms})
		if err != nil {
			t.Fatal(err)
		}
		l.line.confirmed, l.knee = true, knee{at: 20, samples: samplesMost, rate: 138 * perSecond, alone: 145 * ms, service: 145 * ms}
		l.limit, l.lowered, l.seen.length = 22, tt.lowered, 230*ms
		l.seen.other = point{concurrency: 30, throughput: 180 * perSecond, residence: 165 * ms, samples: 90, order: order{count: 90, sum: 90 * 13, top: 24}}
		l.whileBinding(point{concurrency: 22, throughput: 138 * perSecond, residence: 160 * ms, took: 160 * ms, samples: 64, limit: 22, bound: true,
			order: order{count: 64, sum: 64 * 9, top: 17}})
		if l.line.confirmed || l.knee.at < 0.95*tt.want || l.knee.at > 1.05*tt.want {
			t.Errorf("%s: a line: %v, knee %.1f, want none and %v", tt.name, l.line.confirmed, l.knee.at, tt.want)
		}
		if tt.lowered.samples > 0 && (l.limit < tt.want || l.lowered.samples > 0) {
			t.Errorf("%s: the limit is %.1f, want %v or more, and nothing to regret", tt.name, l.limit, tt.want)
		}
	}
}
