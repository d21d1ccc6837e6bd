//go:build race

package plot

// dpi of a PNG in a program with the race detector, which takes a hundred times as long for each of its dots: nine
// pictures at 160 took a test 47 s.
const dpi = 40
