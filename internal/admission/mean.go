package admission

// mean is a smoothed mean of positive values that gives up what it knows when the last
// few say that it has changed: a server can become ten times slower from one request to
// the next. The zero mean knows nothing, and is 0.
type mean struct {
	value float64
	quick float64 // of the last few
	count float64 // values in it, up to meanMemory
}

const (
	// meanMemory is over how many values a mean is smoothed, quickMemory how many tell
	// that it has changed, if they are longer or shorter by such a factor: for times of
	// which each is as random as exponential ones that is so by chance once in a hundred
	// thousand. With 6 values it is once in a thousand, and with 400,000 departures a second cost
	// 1 to 6 % of the goodput (simulation).
	meanMemory      = 128
	quickMemory     = 12
	longer, shorter = 2.5, 4
)

func (m *mean) add(x float64) {
	m.count = min(m.count+1, meanMemory)
	m.value += (x - m.value) / m.count
	m.quick += (x - m.quick) / min(m.count, quickMemory)
	if m.count > quickMemory && (m.quick > m.value*longer || m.quick < m.value/shorter) {
		m.value = m.quick
	}
}

// multiply says that all values are so many times as large from now on.
func (m *mean) multiply(by float64) { m.value, m.quick = m.value*by, m.quick*by }
