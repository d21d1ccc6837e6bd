//go:build !linux

package procfs

import "errors"

func diagBacklog(into []Pending, _ []int) ([]Pending, error) {
	return into, errors.New("procfs: there is no sock_diag on this system")
}

func sameNetwork(int64) bool { return false }
