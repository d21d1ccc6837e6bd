package world

import "time"

// Shape is the form of a distribution of times.
type Shape uint8

const (
	// Constant is always the mean.
	Constant Shape = iota
	// Exponential has no memory.
	Exponential
	// Pareto has a tail of index Draw.Param, above 1: the less, the heavier.
	Pareto
	// Lognormal has a logarithm of standard deviation Draw.Param, above 0.
	Lognormal
	// Weighted is one of Draw.Points, each as often as its weight.
	Weighted
)

// Draw is a distribution of times.
type Draw struct {
	Shape Shape
	// Mean is above 0. That of Weighted follows from the points, and WithDefaults
	// fills it in.
	Mean time.Duration
	// Param is what Pareto and Lognormal need, 0 for others.
	Param float64
	// Points are what Weighted draws from: a histogram, or rare and long ones
	// among the others. Each time is exact, or, with Spread, the mean of an
	// exponential time. Empty for other shapes.
	Points []Point
	Spread bool
}

// Point is a time and how often it comes, relative to the others.
type Point struct {
	// Value is 0 or more; one of a draw's is above 0.
	Value time.Duration
	// Weight is 0 or more; the weights of a draw sum to more than 0.
	Weight float64
}
