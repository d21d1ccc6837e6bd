//go:build !race

package nsq

const raceEnabled = false
