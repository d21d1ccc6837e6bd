package nats

import "bytes"

// validSubject reports whether NATS takes a subject: no token is empty, and where wildcards may be, ">" is the last, elsewhere there is none.
func validSubject(subject []byte, wildcards bool) bool {
	for rest, more := subject, true; more; {
		var token []byte
		token, rest, more = bytes.Cut(rest, []byte{'.'})
		if len(token) == 0 || len(token) == 1 && (token[0] == '>' && (more || !wildcards) || token[0] == '*' && !wildcards) {
			return false
		}
	}
	return true
}

// toTopic turns a subject that is published to into the name of its topic, in
// place. It reports false if the subject has no topic: an empty token, a wildcard,
// a byte that topics or lines may not have. What is left in it is then of no use.
func toTopic(subject []byte) bool {
	return swap(subject) && !wild(subject)
}

// swap exchanges dots and slashes, and reports whether the tokens are right.
func swap(subject []byte) bool {
	last := byte('.')
	for i, b := range subject {
		switch {
		case b == '.' && last == '.', b <= ' ', b == 0x7f, b == '+', b == '#':
			return false
		case b == '.':
			subject[i] = '/'
		case b == '/':
			subject[i] = '.'
		}
		last = b
	}
	return last != '.'
}

// wild reports whether a topic has a level that would be a wildcard in a subject.
func wild[T ~string | ~[]byte](topic T) bool {
	start := 0
	for i := 0; i <= len(topic); i++ {
		if i < len(topic) && topic[i] != '/' {
			continue
		}
		if i == start+1 && (topic[start] == '*' || topic[start] == '>') {
			return true
		}
		start = i + 1
	}
	return false
}

// toFilter returns the topic filter of a subject that is subscribed to, and false if
// it is none.
func toFilter(subject []byte) (string, bool) {
	filter := bytes.Clone(subject)
	if !swap(filter) {
		return "", false
	}
	levels := bytes.Split(filter, []byte("/"))
	for i, l := range levels {
		switch {
		case string(l) == "*":
			levels[i] = []byte("+")
		case string(l) == ">" && i == len(levels)-1:
			levels[i] = []byte("+/#")
		case string(l) == ">":
			return "", false
		}
	}
	return string(bytes.Join(levels, []byte("/"))), true
}

// appendSubject appends the subject of a topic. It reports false if the topic has
// none.
func appendSubject[T ~string | ~[]byte](buf []byte, topic T) ([]byte, bool) {
	if wild(topic) {
		return buf, false
	}
	last := byte('/')
	for i := range len(topic) {
		b := topic[i]
		last, b = b, exchanged(b, last)
		if b == 0 {
			return buf, false
		}
		buf = append(buf, b)
	}
	return buf, last != '/'
}

// exchanged returns the byte of a subject for that of a topic, 0 if there is none.
func exchanged(b, before byte) byte {
	switch {
	case b == '/' && before == '/', b <= ' ', b == 0x7f:
		return 0
	case b == '/':
		return '.'
	case b == '.':
		return '/'
	}
	return b
}
