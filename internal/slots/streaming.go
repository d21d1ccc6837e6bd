package slots

// streaming tells which part of the requests whose answers have begun are streams. These keep their slots until the driver
// knows them for streams, and nothing works on them meanwhile that others lack. Were these slots counted as taken, the limit,
// which follows from what is worked on, would be too low by as many, and where many answers are streams the more the lower it
// is: 8 workers did a ninth of their work (TestStreamsKeepNoSlotFromOthers).
type streaming struct {
	ends      float64 // the older ones counting half
	all, open float64 // time since these answers had begun, in ns, and the part of it that was a stream's
}

// streamMemory is after how many ends older ones count half.
const streamMemory = 64

// add takes the end of a request whose answer had begun d ns before, or, of a stream, that of its slot.
func (s *streaming) add(d float64, stream bool) {
	if s.ends >= streamMemory {
		s.ends, s.all, s.open = s.ends/2, s.all/2, s.open/2
	}
	s.ends++
	s.all += d
	if stream {
		s.open += d
	}
}

// share returns the part of the time since answers have begun that is a stream's.
func (s *streaming) share() float64 {
	if s.all == 0 {
		return 0
	}
	return s.open / s.all
}

// done reports whether hardly any work is left once an answer begins, where requests take mean ns.
func (s *streaming) done(mean float64) bool { return s.ends > 0 && s.all-s.open < apart*mean*s.ends }
