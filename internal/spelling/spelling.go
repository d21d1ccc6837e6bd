// Package spelling finds the known name that a misspelt word most likely means.
//
//	"lisen", {listen, limits, log} ──Closest──▶ "listen"
//
// The distance of two names is the number of letters that must be added, removed,
// replaced or swapped with their neighbour to turn one into the other. A word that is far
// from every known name is no misspelling.
//
// Invariants: the same word and names give the same answer, whatever their order.
//
// What this package does not do: it looks at the letters alone, at most the first 64 of
// each name.
package spelling

import "strings"

// longest is how many letters a name may have: the time grows with their square. A longer
// one is close to none.
const longest = 64

// Closest returns the one of known that word is probably a misspelling of, empty if there
// is none: a third of its letters may be wrong, or one letter of a short word, or it is
// the beginning of one name alone.
func Closest(word string, known []string) string {
	best, least := "", min(max(len(word)/3, 1)+1, len(word))
	begins, more := "", false
	for _, name := range known {
		if max(len(word), len(name)) > longest {
			continue
		}
		if d := distance(word, name); d < least || d == least && best != "" && better(word, name, best) {
			best, least = name, d
		}
		if len(word) > 1 && strings.HasPrefix(name, word) && name != begins {
			begins, more = name, begins != ""
		}
	}
	if best == "" && !more {
		return begins
	}
	return best
}

// better reports whether a is preferable to b, which is as close to word: it begins
// with word, or else comes first in the alphabet.
func better(word, a, b string) bool {
	if x, y := strings.HasPrefix(a, word), strings.HasPrefix(b, word); x != y {
		return x
	}
	return a < b
}

// DidYouMean returns what to add to an error about word, empty if no known name is close.
func DidYouMean(word string, known []string) string {
	if name := Closest(word, known); name != "" {
		return "; did you mean " + name + "?"
	}
	return ""
}

// distance is the number of letters to add, remove, replace or swap, of two words of at
// most longest bytes.
func distance(a, b string) int {
	var before, last, row [longest + 1]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if lower(a[i]) == lower(b[j]) {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
