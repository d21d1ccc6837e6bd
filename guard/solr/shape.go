package solr

import (
	"hash/fnv"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/guard/statement"
)

// most bounds, for a shape, how many parameters and how many fields of one are told apart.
const most = 64

// statementOf tells which queries do the same work: by their handler, the names of their parameters, the
// fields that these name, and the magnitude of the whole. Values are left out.
//
//	/select  q=body:apple+OR+n:[1+TO+9]&rows=10  ─▶  /select q(body n) rows
func statementOf(path, text string, length int64) statement.Statement {
	var parts []string
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		part := unescaped(name)
		if fields := fieldsOf(unescaped(value)); len(fields) > 0 {
			part += "(" + strings.Join(fields, " ") + ")"
		}
		if !slices.Contains(parts, part) && part != "" && len(parts) < most {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	shape := path + " " + strings.Join(parts, " ")
	if digits := len(strconv.FormatInt(max(length, int64(len(text))), 10)); digits > 3 {
		shape += " x" + strings.Repeat("0", digits-1) // characters
	}
	shape = strings.ToValidUTF8(shape, "")
	h := fnv.New64a()
	_, _ = h.Write([]byte(shape))
	return statement.Statement{Fingerprint: max(h.Sum64(), 1), Text: shape, Class: statement.Select}
}

// unescaped undoes the escapes of a URL. A text that was cut off in one keeps it.
func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// fieldsOf returns the different names in front of colons, in order.
func fieldsOf(query string) (fields []string) {
	start := -1
	for i := range len(query) {
		c := query[i]
		word := c == '_' || c == '.' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		switch {
		case word && start < 0:
			start = i
		case c == ':' && start >= 0:
			if name := query[start:i]; !slices.Contains(fields, name) && len(fields) < most {
				fields = append(fields, name)
			}
			start = -1
		case !word:
			start = -1
		}
	}
	slices.Sort(fields)
	return fields
}
