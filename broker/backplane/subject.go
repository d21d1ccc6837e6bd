package backplane

import "strings"

// Topics become NATS subjects level by level. Those that begin with "$" have a tree of
// their own, since wildcards in the first level do not cover them.
//
//	a/b c//#  →  n.a.b%20c.%.>        $SYS/x  →  s.%24SYS.x
const hex = "0123456789ABCDEF"

// appendLevel appends a level as a token. An empty one is "%".
func appendLevel(to []byte, level string) []byte {
	if level == "" {
		return append(to, '%')
	}
	for i := range len(level) {
		switch c := level[i]; {
		case c <= ' ', c == '.', c == '*', c == '>', c == '%', c == '$', c == 0x7f:
			to = append(to, '%', hex[c>>4], hex[c&15])
		default:
			to = append(to, c)
		}
	}
	return to
}

func appendTree(to []byte, topic string) []byte {
	if strings.HasPrefix(topic, "$") {
		return append(to, 's')
	}
	return append(to, 'n')
}

// subjectOf returns the subject of a topic under a prefix that ends with a dot.
func subjectOf(prefix, topic string) string {
	to := appendTree(append(make([]byte, 0, len(prefix)+len(topic)+16), prefix...), topic)
	for rest, more := topic, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		to = appendLevel(append(to, '.'), level)
	}
	return string(to)
}

// subjectsOf returns the subjects that cover what a filter covers: two where it ends
// with "#", which covers its parent too.
func subjectsOf(prefix, filter string) []string {
	to := appendTree([]byte(prefix), filter)
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		switch level {
		case "#":
			all := string(append(to, ".>"...))
			if filter == "#" {
				return []string{all}
			}
			return []string{string(to), all}
		case "+":
			to = append(to, ".*"...)
		default:
			to = appendLevel(append(to, '.'), level)
		}
	}
	return []string{string(to)}
}

// token is a client's name, or a node's, as one token.
func token(name string) string { return string(appendLevel(nil, name)) }
