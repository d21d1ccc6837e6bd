package admission

// usage is what each sender was let have of late, in requests as long as the mean: of
// usageMemory requests, the newest counting most. It tells who asks for more than others
// and who made the queue.
//
// Senders are numbers that the driver chose, and so are those who answer for them, their
// peers. Each counts in one cell of every row, and has what the smaller of its cells
// says, as in a count-min sketch (Cormode and Muthukrishnan 2005): it never seems to have
// had less than it had, and of a thousand others few share both cells with one that has
// had much. So the memory is bounded, and nobody has to be forgotten.
type usage struct {
	unit  float64 // of a request that is let in now: as what counts grows, all else fades
	all   float64 // in the unit at the start
	cells [usageRows][usageCells]float64
}

const (
	// usageMemory requests are 200 of each of 20 senders, of which a half is seen to be
	// less: of fewer it would be by chance. Until a sender that changes is seen to have
	// changed takes about as many.
	usageMemory = 4096
	usageRows   = 2
	usageCells  = 1024
	// usageLargest is the unit at which all is counted anew from 1, long before a float64
	// overflows.
	usageLargest = 1e100
)

func newUsage() *usage { return &usage{unit: 1} }

// of returns what a sender had, in requests.
func (u *usage) of(sender uint64) float64 {
	a, b := usagePlaces(sender)
	return min(u.cells[0][a], u.cells[1][b]) / u.unit
}

// total returns what all had, in requests.
func (u *usage) total() float64 { return u.all / u.unit }

// let counts a request that is let in, for its sender and, unless 0, its peer.
func (u *usage) let(sender, peer uint64) {
	if u.unit *= 1 + 1.0/usageMemory; u.unit > usageLargest {
		u.shrink()
	}
	u.add(sender, peer, 1)
}

// add counts so many requests more, less if below 0: one that was let in was longer than
// the mean, or did not run after all.
func (u *usage) add(sender, peer uint64, requests float64) {
	d := requests * u.unit
	u.all = max(u.all+d, 0)
	u.count(sender, d)
	if peer != 0 {
		u.count(peer, d)
	}
}

func (u *usage) count(sender uint64, d float64) {
	a, b := usagePlaces(sender)
	u.cells[0][a] = max(u.cells[0][a]+d, 0)
	u.cells[1][b] = max(u.cells[1][b]+d, 0)
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

// usagePlaces returns the cells of a sender.
func usagePlaces(sender uint64) (a, b int) {
	x := sender * 0x9e3779b97f4a7c15 // 2⁶⁴ ÷ the golden ratio: neighbours go far apart
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return int(x % usageCells), int(x >> 32 % usageCells)
}
