package hold

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// share divides a capacity among the tasks that want it, by weight. Its clock
// counts the service that a weight of 1 has had; a task is done when the clock
// shows what it needs.
type share struct {
	clock  float64 // seconds of service per unit of weight
	at     mono.Time
	weight float64
	jobs   []job
	gen    uint32
}

type job struct {
	task    int32
	weight  float64
	since   mono.Time
	entered float64 // the clock then
	until   float64 // the clock at its end
}

// speed returns the service per second of a unit of weight: 1 while all fit in.
func (s *share) speed(slots float64) float64 {
	if s.weight <= slots {
		return 1
	}
	return slots / s.weight
}

// run advances the clock.
func (s *share) run(now mono.Time, slots float64) {
	s.clock += now.Sub(s.at).Seconds() * s.speed(slots)
	s.at = now
}

// work makes task n consume d of resource r.
func (a *app) work(n int32, r int, d time.Duration) {
	s, now := &a.shares[r], a.engine.Now()
	s.run(now, a.cfg.Resources[r].Slots)
	w := a.tasks[n].program.Weight
	if w == 0 {
		w = 1
	}
	s.weight += w
	s.jobs = append(s.jobs, job{n, w, now, s.clock, s.clock + d.Seconds()/w})
	a.tasks[n].cells[r].waits++
	a.shareNext(r)
}

// shareNext schedules the next end.
func (a *app) shareNext(r int) {
	s := &a.shares[r]
	s.gen++
	if len(s.jobs) == 0 {
		s.weight = 0
		return
	}
	first := s.jobs[0].until
	for _, j := range s.jobs[1:] {
		first = min(first, j.until)
	}
	wait := max(first-s.clock, 0) / s.speed(a.cfg.Resources[r].Slots)
	a.engine.At(a.engine.Now().Add(time.Duration(wait*float64(time.Second))+1), event{what: shareEnd, n: int32(r), gen: s.gen})
}

// shareDone ends the jobs that are done.
func (a *app) shareDone(r int) {
	s := &a.shares[r]
	s.run(a.engine.Now(), a.cfg.Resources[r].Slots)
	var ended [8]int32
	list := ended[:0]
	for _, j := range s.jobs {
		if j.until <= s.clock {
			list = append(list, j.task)
		}
	}
	for _, n := range list {
		a.shareLeave(n, r)
		a.opDone(n)
	}
	a.shareNext(r)
}

// shareLeave takes task n out of resource r and accounts for what it had.
func (a *app) shareLeave(n int32, r int) {
	s := &a.shares[r]
	s.run(a.engine.Now(), a.cfg.Resources[r].Slots)
	for i := range s.jobs {
		if j := s.jobs[i]; j.task == n {
			c := &a.tasks[n].cells[r]
			had, lost := s.account(&j, a.engine.Now())
			c.gets += uint64(had)
			c.waitTime += lost
			s.weight -= j.weight
			s.jobs = append(s.jobs[:i], s.jobs[i+1:]...)
			a.shareNext(r)
			return
		}
	}
}

// account returns what a job has had so far, and the time it lost to the others.
func (s *share) account(j *job, now mono.Time) (had, lost time.Duration) {
	per := time.Duration((s.clock - j.entered) * float64(time.Second))
	return time.Duration(float64(per) * j.weight), max(now.Sub(j.since)-per, 0)
}
