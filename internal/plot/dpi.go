//go:build !race

package plot

// dpi of a PNG: sharp on a dense screen and in a document.
const dpi = 160
