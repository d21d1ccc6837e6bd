package admission

// usage is what each sender had of the last usageMemory requests, the newest counting
// most, in requests of the mean length. It tells which senders ask for more than others
// and made the queue.
//
// Senders and their peers are numbers that the driver chose. Each counts in one cell of
// every row, and has what the smaller of its cells says, as in a count-min sketch (Cormode
// and Muthukrishnan 2005). So a sender never seems to have had less than it had, few of a
// thousand others share both cells with one that had much, and the memory is bounded.
type usage struct {
	unit  float64 // of a request that is let in now: as what counts grows, all else fades
	all   float64 // in the unit at the start
	cells [usageRows][usageCells]float64
}

const (
	// usageMemory requests are 200 of each of 20 senders, the least number of which half
	// as many is clearly less. A sender that changes is seen to have changed after about
	// as many requests.
	usageMemory = 4096
	usageRows   = 2
	usageCells  = 1024
	// usageLargest is the unit at which all is counted anew from 1, long before a float64
	// overflows.
	usageLargest = 1e100
)

func newUsage() *usage { return &usage{unit: 1} }

// of returns what a sender had, in requests.
func (u *usage) of(c cells) float64 {
	had := u.cells[0][c.first]
	if other := u.cells[1][c.second]; other < had {
		had = other
	}
	return had / u.unit
}

// total returns what all had, in requests.
func (u *usage) total() float64 { return u.all / u.unit }

// let counts a request that is let in, for its sender and its peer, if that is known.
func (u *usage) let(s *senders) {
	if u.unit *= 1 + 1.0/usageMemory; u.unit > usageLargest {
		u.shrink()
	}
	u.add(s, 1)
}

// add counts so many requests more, less if below 0: one that was let in was longer than
// the mean, or did not run after all.
func (u *usage) add(s *senders, requests float64) {
	d := requests * u.unit
	if u.all += d; u.all < 0 {
		u.all = 0
	}
	u.count(s.own, d)
	if s.known {
		u.count(s.peer, d)
	}
}

func (u *usage) count(c cells, d float64) {
	first, second := &u.cells[0][c.first], &u.cells[1][c.second]
	if *first += d; *first < 0 {
		*first = 0
	}
	if *second += d; *second < 0 {
		*second = 0
	}
}

func (u *usage) shrink() {
	for r := range u.cells {
		for c := range u.cells[r] {
			u.cells[r][c] /= u.unit
		}
	}
	u.all /= u.unit
	u.unit = 1
}

// cells is where a sender counts: below usageCells, in the first row and in the second.
type cells struct{ first, second uint16 }

// senders is where the sender of a request counts, and its peer if that is known.
type senders struct {
	own, peer cells
	known     bool
}

// cellsOf returns the cells of a sender.
func cellsOf(sender uint64) cells {
	x := sender * 0x9e3779b97f4a7c15 // 2⁶⁴ ÷ the golden ratio: neighbours go far apart
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return cells{uint16(x % usageCells), uint16(x >> 32 % usageCells)}
}
