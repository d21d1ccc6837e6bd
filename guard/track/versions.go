package track

import (
	"cmp"
	"slices"
)

// Margins tells how many versions of rows each snapshot alone keeps, given how many were
// made since it was taken: so many more than since the next younger one. Of snapshots of
// the same age the first in order has what they keep.
func Margins(made []uint64) []uint64 {
	order := make([]int, len(made))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(made[a], made[b]), cmp.Compare(a, b)) })
	alone := make([]uint64, len(made))
	younger := uint64(0)
	for _, i := range order {
		alone[i], younger = made[i]-younger, made[i]
	}
	return alone
}
