package mesh

// Shape is a family of service time distributions.
type Shape uint8

const (
	// ShapeExponential has the coefficient of variation 1.
	ShapeExponential Shape = iota
	// ShapeFixed is always the mean.
	ShapeFixed
	// ShapeBimodal is 4 times the mean for one request in five, else a quarter of it
	// (Breakwater §5).
	ShapeBimodal
)

// String names s as results do.
func (s Shape) String() string {
	switch s {
	case ShapeExponential:
		return "exponential"
	case ShapeFixed:
		return "constant"
	case ShapeBimodal:
		return "bimodal"
	}
	return "unknown"
}
