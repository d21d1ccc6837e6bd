//go:build !race && linux && (amd64 || arm64)

package stamp

// acquire is for the race detector.
func acquire(uintptr) {}
