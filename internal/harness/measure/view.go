package measure

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Live describes the run as it stands at now. It briefly locks each shard in
// turn, so its numbers are those of slightly different moments.
func (r *Recorder) Live(now time.Time) Live {
	elapsed := max(r.since(now), 0)
	l := Live{Elapsed: elapsed}
	whole := elapsed / r.cfg.Window * r.cfg.Window
	l.Second = r.Span(max(whole-time.Second, 0), whole)
	l.Total.To = elapsed
	var refused, failed tally
	for _, s := range r.shards {
		s.mu.Lock()
		l.InFlight += s.inFlight
		if s.first != nil {
			l.Oldest = max(l.Oldest, elapsed-s.first.intended)
		}
		l.Total.add(&s.total)
		l.Total.Oldest = max(l.Total.Oldest, s.oldest)
		refused.add(s.refusedBy)
		failed.add(s.failedBy)
		s.mu.Unlock()
	}
	l.Total.Oldest = max(l.Total.Oldest, l.Oldest)
	l.Total.RefusedBy = r.reasons.names(refused)
	l.Total.FailedBy = r.reasons.names(failed)
	l.Total.finish()
	return l
}

// Span describes the stretch of the run between two instants counted from its
// start, widened to whole windows. Its distributions are within 3 %.
func (r *Recorder) Span(from, to time.Duration) Span {
	first := int(max(from, 0) / r.cfg.Window)
	end := int((max(to, 0) + r.cfg.Window - 1) / r.cfg.Window)
	return r.span(first, max(end, first))
}

// span describes the windows first to end-1.
func (r *Recorder) span(first, end int) Span {
	out := Span{From: time.Duration(first) * r.cfg.Window, To: time.Duration(end) * r.cfg.Window}
	var refused, failed tally
	var latency, refusal sketch
	for _, s := range r.shards {
		s.mu.Lock()
		for i := first; i < end && i < len(s.windows); i++ {
			w := s.windows[i]
			if w == nil {
				continue
			}
			out.add(&w.Counts)
			out.Oldest = max(out.Oldest, w.oldest)
			refused.add(w.refusedBy)
			failed.add(w.failedBy)
			latency.add(w.latency)
			refusal.add(w.refusal)
		}
		s.mu.Unlock()
	}
	out.RefusedBy = r.reasons.names(refused)
	out.FailedBy = r.reasons.names(failed)
	out.Latency = latency.dist()
	out.Refusal = refusal.dist()
	out.finish()
	return out
}

// Result judges the run, which lasted until now. Call it after the last End: requests
// still in flight are in no outcome, and the result remarks on them.
func (r *Recorder) Result(now time.Time) Result {
	elapsed := max(r.since(now), 0)
	res := Result{SLO: r.cfg.SLO, Window: r.cfg.Window, Valid: true}
	live := r.Live(now)
	res.Total = live.Total

	latency, refusal, lag := newHistogram(), newHistogram(), newHistogram()
	windows := int((elapsed + r.cfg.Window - 1) / r.cfg.Window)
	for _, s := range r.shards {
		s.mu.Lock()
		latency.Merge(s.latency)
		refusal.Merge(s.refusal)
		lag.Merge(s.lag)
		windows = max(windows, len(s.windows))
		s.mu.Unlock()
	}
	res.Total.Latency, res.Total.Refusal, res.SendLag = dist(latency), dist(refusal), dist(lag)
	for i := range min(windows, maxWindows) {
		res.Windows = append(res.Windows, r.span(i, i+1))
	}
	r.judge(&res, live.InFlight, lag)
	return res
}

// judge rejects a run that its own generator spoilt. That requests pile up until none more
// can be sent is no such thing: a server that answers nobody does that, and its run counts.
func (r *Recorder) judge(res *Result, inFlight int, lag *hdrhistogram.Histogram) {
	t := &res.Total
	if t.Offered == 0 {
		res.Reject("nothing was offered")
	}
	if t.NotSent > 0 {
		res.Remark(fmt.Sprintf("%d of %d requests were not sent: the generator was at its limit of requests in flight", t.NotSent, t.Offered))
	}
	if inFlight > 0 {
		res.Remark(fmt.Sprintf("%d requests were still in flight", inFlight))
	}
	if most := r.cfg.SLO / 10; lag.TotalCount() > 0 && res.SendLag.P99 > most {
		res.Reject(fmt.Sprintf("send lag p99 is %v, must be at most a tenth of the SLO, %v", res.SendLag.P99.Round(10*time.Microsecond), most))
	}
}
