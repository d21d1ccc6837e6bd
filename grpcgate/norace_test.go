//go:build !race

package grpcgate

const raceEnabled = false
