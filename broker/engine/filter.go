package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Topic names and filters are those of MQTT: levels between slashes, "+" for one
// level, "#" for all that follow.
const (
	// maxTopicLength is the longest topic name or filter, in bytes. Longer ones are
	// refused.
	maxTopicLength = 1024
	// maxTopicLevels is the most levels of a name or filter: matching takes time in
	// proportion to them.
	maxTopicLevels = 32
)

// CheckTopic says what is wrong with a topic name, nil if nothing is.
func CheckTopic(name string) error {
	if err := checkLevels(name); err != nil {
		return err
	}
	if strings.ContainsAny(name, "+#") {
		return fmt.Errorf("topic %q has a wildcard, expected a name without + and #", shorten(name))
	}
	return nil
}

// CheckFilter says what is wrong with a topic filter, nil if nothing is.
func CheckFilter(filter string) error {
	if err := checkLevels(filter); err != nil {
		return err
	}
	rest := filter
	for more := true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		switch {
		case level == "#" && more:
			return fmt.Errorf("filter %q goes on after #, expected # as its last level", shorten(filter))
		case level != "#" && level != "+" && strings.ContainsAny(level, "+#"):
			return fmt.Errorf("filter %q has a wildcard inside the level %q, expected + or # as whole levels", shorten(filter), shorten(level))
		}
	}
	return nil
}

func checkLevels(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("the topic is empty, expected 1 to %d bytes", maxTopicLength)
	case len(s) > maxTopicLength:
		return fmt.Errorf("topic %q has %d bytes, expected at most %d", shorten(s), len(s), maxTopicLength)
	case strings.Count(s, "/") >= maxTopicLevels:
		return fmt.Errorf("topic %q has %d levels, expected at most %d", shorten(s), strings.Count(s, "/")+1, maxTopicLevels)
	case !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("topic %q is not UTF-8 without NUL", shorten(s))
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// Matches reports whether a topic filter covers a topic name. Wildcards in the
// first level do not cover names that begin with "$".
func Matches(filter, name string) bool {
	if strings.HasPrefix(name, "$") && (strings.HasPrefix(filter, "+") || strings.HasPrefix(filter, "#")) {
		return false
	}
	for {
		f, filterRest, filterMore := strings.Cut(filter, "/")
		if f == "#" {
			return true
		}
		n, nameRest, nameMore := strings.Cut(name, "/")
		if f != "+" && f != n {
			return false
		}
		if !filterMore && !nameMore {
			return true
		}
		if !nameMore {
			return filterRest == "#" // "a/#" covers "a"
		}
		if !filterMore {
			return false
		}
		filter, name = filterRest, nameRest
	}
}
