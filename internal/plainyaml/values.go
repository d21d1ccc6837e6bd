package plainyaml

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// AnyText decodes a string, which may be empty, and reports whether it did. Numbers are
// taken as they stand, so that no author of a file has to know what YAML thinks is
// a number.
func (d *Decoder) AnyText(n Node, to *string) bool {
	switch v := n.ast.(type) {
	case *ast.StringNode:
		*to = v.Value
	case *ast.IntegerNode, *ast.FloatNode:
		*to = v.GetToken().Value
	default:
		want := "a text"
		if n.Mapping() {
			want = "a text, in quotes if it has a colon"
		}
		d.Wrong(n, kind(n.ast), want)
		return false
	}
	return true
}

// Text decodes a string that is not empty, as AnyText does.
func (d *Decoder) Text(n Node, to *string) bool {
	if !d.AnyText(n, to) {
		return false
	}
	if *to == "" {
		d.Wrong(n, `""`, "a text that is not empty")
		return false
	}
	return true
}

// Duration decodes a time of at least 0 with its unit; 0 needs none.
func (d *Decoder) Duration(n Node, to *time.Duration) {
	const want = "a duration such as 100ms, 2s or 1m30s"
	switch v := n.ast.(type) {
	case *ast.StringNode:
		t, err := time.ParseDuration(v.Value)
		if err != nil || t < 0 {
			d.Wrong(n, Quoted(v.Value), want)
			return
		}
		*to = t
	case *ast.IntegerNode, *ast.FloatNode:
		if s := n.ast.GetToken().Value; s != "0" {
			d.Wrong(n, Cut(s)+" without a unit", want)
			return
		}
		*to = 0
	default:
		d.Wrong(n, kind(n.ast), want)
	}
}

// Integer decodes a whole number of at least 0.
func (d *Decoder) Integer(n Node, to *int) {
	const want = "a whole number of at least 0"
	v, ok := n.ast.(*ast.IntegerNode)
	if !ok {
		value := kind(n.ast)
		if n.Scalar() && n.ast.GetToken() != nil {
			value = Quoted(n.ast.GetToken().Value)
		}
		d.Wrong(n, value, want)
		return
	}
	s := v.GetToken().Value
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 {
		d.Wrong(n, Cut(s), want)
		return
	}
	*to = i
}

// Number decodes a number of at least 0, and reports whether it did.
func (d *Decoder) Number(n Node, to *float64) bool {
	const want = "a number of at least 0"
	s, ok := numeral(n.ast)
	if !ok {
		d.Wrong(n, kind(n.ast), want)
		return false
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0) || math.IsInf(x, 1) {
		d.Wrong(n, Cut(s), want)
		return false
	}
	*to = x
	return true
}

// numeral returns the text of a number. The parser takes 1e5 for a text, YAML for a number.
func numeral(n ast.Node) (s string, ok bool) {
	s = n.GetToken().Value
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return s, true
	case *ast.StringNode:
		return s, n.GetToken().Type == token.StringType && s != "" && s[0] >= '0' && s[0] <= '9' && strings.Trim(s, "0123456789eE+-") == ""
	}
	return "", false
}

// Boolean decodes true or false.
func (d *Decoder) Boolean(n Node, to *bool) {
	v, ok := n.ast.(*ast.BoolNode)
	if !ok {
		value := kind(n.ast)
		if s, text := n.ast.(*ast.StringNode); text {
			value = Quoted(s.Value)
		}
		d.Wrong(n, value, "true or false")
		return
	}
	*to = v.Value
}
