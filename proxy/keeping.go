package proxy

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// keeping decides whether connections to a server are kept after an answer. It is a policy:
// not for several goroutines at once.
//
// A server with a process for each connection (Apache's prefork, for one) begins with a new
// connection only when another one ends. If there are more connections than processes,
// those that are kept have all processes, requests on them are answered one after another,
// and a request on a new connection waits in the server's accept queue for as long as the
// kept ones are in use: it holds a slot and ends with its client's patience. Without kept
// connections, all requests take turns.
//
//	        a new connection is silent for longer than two answers take, each answered one
//	        had an answer since, and no later one was answered: that is suspicious
//	keep ────────────────────────────────────────────────────────────▶ try
//	 ▲ ▲                                                                │ no connection is kept
//	 │ └──── after a pause that doubles ── it stays silent: long work ──┤
//	 │                                                                  │ it is answered
//	 └── after 1 s, then 16 s, 60 s    ◀── part: as many are kept as    ┘
//	                                       were answered before the trial: the processes
//
// So while no more requests are under way than there are processes, connections are kept; with the first one beyond
// that, whichever ends next is closed, and its process takes the one that waits. A new connection that is answered although
// as many that were there before it are still open shows that there are more processes: of a server with a thread for each,
// where one slow answer looked like a process that was missing, or of one that has started some.
//
// A server may also close a kept connection without a word, after an idle time that only it knows:
// a request that is sent at that moment fails, and if it may not be executed twice, its client gets
// 502. Such a failure leads to part at once (stale), in which none is kept, for a time that doubles.
//
// A trial that was wrong costs some connections that are made anew, and is tried again at
// growing distances.
type keeping struct {
	// patience is for how long a new connection may be silent at least, an eighth of the
	// objective: what then still waits for one answer is in time.
	patience time.Duration

	phase    phase
	until    mono.Time     // when try or part ends
	most     int           // connections that are kept in part; negative: none
	asked    mono.Time     // the latest request of those that a trial is for
	tried    int           // links that were answered before the trial
	earliest mono.Time     // when the next trial may begin
	counted  spell         // the last part in which some are kept
	cut      spell         // and the last in which none is
	doubted  time.Duration // how long the last pause after a wrong trial was; 0: none since a right one

	silent  []*link       // asked and never answered, in the order of their requests
	heard   int           // links that were answered, and are open
	answers int           // on all links so far
	ends    int           // of links so far
	takes   time.Duration // mean of answers on links that were kept; at first that of the first answer
}

// spell is a time that was, or is.
type spell struct {
	took  time.Duration // 0: there was none
	until mono.Time
}

// phase is what becomes of connections: see keeping.
type phase uint8

const (
	keep phase = iota
	try
	part
)

const (
	// firstParting and longestParting bound how long not all connections are kept, after a trial that was right and after
	// one that was closed under a request. A connection made anew costs some 100 µs of each side, so a second is
	// not dear; a minute is after what time a server may be another one.
	firstParting, longestParting = time.Second, time.Minute
	// againCounted is how many times as long the next count holds. A count of a server with threads, of answers that take
	// equally long, is wrong until its end, so the second one is not yet for a minute.
	againCounted = 16
	// firstDoubt is how many times patience no trial is made after one that was wrong, and
	// longestParting the most: an objective, which a trial of a few connections may cost.
	firstDoubt = 8
	// twoAnswers is how many answers' time a connection is silent before that is
	// suspicious: of exponential times, one in seven is longer, which a trial then shows.
	twoAnswers = 2
	// trialAnswers is how many answers' time a trial takes: one that is under way ends,
	// another one on the same connection, and then that of the suspect; and one more.
	trialAnswers = 4
	// takesShare is the part of a new time in the mean.
	takesShare = 8
	// sameTime is the part of patience within which connections may be accepted in another order than they were asked in:
	// some milliseconds.
	sameTime = 4
)

// link is what keeping knows of a connection.
type link struct {
	asked   mono.Time // when a request began that has no answer yet; 0: none has
	answers int       // keeping.answers then
	before  int       // links that were open when the first request began, and
	ends    int       // keeping.ends then
	first   mono.Time // when the first request began
	begun   bool      // it has a process, as one that came later was answered
	heard   bool      // it was answered
	ended   bool
}

// ask notes that a request is sent on l.
func (k *keeping) ask(now mono.Time, l *link) {
	l.asked, l.answers = now, k.answers
	if !l.heard && !l.ended {
		l.before, l.ends, l.first = k.heard+len(k.silent), k.ends, now
		k.silent = append(k.silent, l)
	}
}

// more notes that more of a request is sent on l. How long that takes is its client's affair, so a new connection is not
// silent before the last of it.
func (k *keeping) more(now mono.Time, l *link) {
	if l.asked == 0 || l.heard || l.ended {
		return
	}
	l.asked, l.answers = now, k.answers
	k.forget(l)
	k.silent = append(k.silent, l)
}

// answer notes that an answer begins on l.
func (k *keeping) answer(now mono.Time, l *link) {
	if l.asked == 0 || l.ended {
		return
	}
	began := l.asked
	took := now.Sub(began)
	l.asked = 0
	k.answers++
	if l.heard {
		k.takes += (took - k.takes) / takesShare
		return
	}
	l.heard = true
	k.heard++
	k.forget(l)
	if k.takes == 0 {
		k.takes = took
	}
	if k.phase == try && began <= k.asked && !l.begun {
		k.doubted = 0
		k.part(now, k.tried)
	}
	if left := l.before - (k.ends - l.ends); k.phase == part && k.most >= 0 && left >= k.most {
		k.most = left + 1
	}
	if k.phase == try {
		return // who has a process now may have waited for it
	}
	for _, older := range k.silent {
		older.begun = older.begun || l.first.Sub(older.first) >= k.patience/sameTime
	}
}

// end notes that l is closed.
func (k *keeping) end(l *link) {
	if l.heard && !l.ended {
		k.heard--
	}
	if !l.ended {
		k.ends++
	}
	l.ended = true
	k.forget(l)
}

func (k *keeping) forget(l *link) {
	if i := slices.Index(k.silent, l); i >= 0 {
		k.silent = slices.Delete(k.silent, i, i+1)
	}
}

// stale notes that the server closed a kept connection under a request, or just before one was sent.
func (k *keeping) stale(now mono.Time) {
	if k.phase == part && k.most < 0 && now < k.until {
		return // a connection of before
	}
	k.part(now, none)
}

// part begins a time in which so many connections are kept. If the last one of that kind was of late it is twice as long,
// or, where processes were counted, sixteen times: what was found is corrected meanwhile where answers overtake each other.
func (k *keeping) part(now mono.Time, most int) {
	last, times := &k.counted, time.Duration(againCounted)
	if most == none {
		last, times = &k.cut, 2
	}
	next := firstParting
	if last.took > 0 && now.Sub(last.until) <= longestParting {
		next = min(times*last.took, longestParting)
	}
	*last = spell{next, now.Add(next)}
	k.phase, k.until, k.most = part, last.until, most
}

// none is keeping.most where no connection is kept.
const none = -1

// parts reports whether a connection whose request is sent, or answered, now is not kept.
func (k *keeping) parts(now mono.Time) bool {
	switch {
	case now >= k.until:
		return false
	case k.phase == part:
		return k.heard+len(k.silent) > k.most
	}
	return k.phase == try
}

// wake looks for a suspect and ends what is over. It says when to be called again, 0 for not
// before the next ask on a new connection, and whether idle connections are to be closed
// now. Early and late calls do no harm.
func (k *keeping) wake(now mono.Time) (again mono.Time, closeIdle bool) {
	if k.phase != keep && now >= k.until {
		k.conclude(now)
	}
	keeps := k.phase == keep || k.phase == part && !k.parts(now)
	if keeps && now >= k.earliest && k.suspicious(now) {
		k.phase, k.asked, k.tried = try, now.Add(-k.wait()), k.heard
		k.until = now.Add(k.answersTake(trialAnswers, k.patience, 8*k.patience))
	}
	switch {
	case k.phase == try:
		return min(k.until, now.Add(k.wait()/2)), true
	case k.phase == part && k.most < 0:
		return k.until, true
	case len(k.silent) == 0:
		return 0, false
	}
	return max(now.Add(k.wait()/2), k.earliest), k.parts(now)
}

// conclude ends a trial that was wrong, or the time without kept connections.
func (k *keeping) conclude(now mono.Time) {
	if k.phase == try {
		k.doubted = min(max(2*k.doubted, firstDoubt*k.patience), longestParting)
		k.earliest = now.Add(k.doubted)
	}
	k.phase = keep
}

// wait is for how long a new connection may be silent.
func (k *keeping) wait() time.Duration { return k.answersTake(twoAnswers, k.patience, 4*k.patience) }

// answersTake is the time of n answers, within bounds: with lines in front of them, answers
// may take any time.
func (k *keeping) answersTake(n int, least, most time.Duration) time.Duration {
	return min(max(time.Duration(n)*k.takes, least), most)
}

// suspicious reports whether the new connection that waits longest was passed by all that are answered. One that a later one
// has overtaken does not wait: an accept queue keeps the order.
func (k *keeping) suspicious(now mono.Time) bool {
	i := slices.IndexFunc(k.silent, func(l *link) bool { return !l.begun })
	if i < 0 || k.heard == 0 {
		return false
	}
	l := k.silent[i]
	return now.Sub(l.asked) >= k.wait() && k.answers-l.answers >= k.heard
}
