//go:build race

package grpcgate

const raceEnabled = true
