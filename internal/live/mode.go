package live

import "fmt"

// Mode says how far a gate's decisions go.
type Mode uint8

const (
	// Enforce refuses and delays requests.
	Enforce Mode = iota
	// Monitor lets every request run at once and counts what Enforce would have
	// done.
	Monitor
	// Off lets every request run at once and measures nothing.
	Off
)

var modeNames = [...]string{Enforce: "enforce", Monitor: "monitor", Off: "off"}

// String returns the name that ParseMode takes.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// ParseMode returns the mode called s.
func ParseMode(s string) (Mode, error) {
	for m, name := range modeNames {
		if s == name {
			return Mode(m), nil
		}
	}
	return Enforce, fmt.Errorf("mode is %q, expected off, monitor or enforce", s)
}
