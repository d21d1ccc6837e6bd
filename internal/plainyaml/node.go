package plainyaml

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

type place struct{ line, column int }

// Node is a value in the tree and the path that leads to it.
type Node struct {
	ast  ast.Node
	path string
	at   place
}

// Scalar reports whether n is a plain value, or something that should be one.
func (n Node) Scalar() bool {
	switch n.ast.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.NullNode:
		return false
	}
	return true
}

// Word returns the text of n, and false if n is a number or anything else.
func (n Node) Word() (string, bool) {
	if v, ok := n.ast.(*ast.StringNode); ok {
		return v.Value, true
	}
	return "", false
}

// Kind names what kind of thing n is, for mistakes.
func (n Node) Kind() string { return kind(n.ast) }

// Path returns the path that leads to n, as in mistakes: upstreams[1].url.
func (n Node) Path() string { return n.path }

func placeOf(n ast.Node) place {
	if n == nil || n.GetToken() == nil {
		return place{}
	}
	// The token of a mapping is the colon after its first key.
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			return placeOf(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return placeOf(m.Key)
	}
	return tokenPlace(n.GetToken())
}

func tokenPlace(t *token.Token) place {
	if t.Position == nil {
		return place{}
	}
	return place{t.Position.Line, t.Position.Column}
}

// kind names what kind of thing n is, for mistakes.
func kind(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return Cut(n.GetToken().Value)
	case *ast.StringNode:
		return Quoted(n.Value)
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.AnchorNode:
		return "an anchor"
	case *ast.AliasNode:
		return "an alias"
	case *ast.TagNode:
		return "a tag"
	case *ast.MergeKeyNode:
		return "a merge"
	}
	return "something else"
}

// Quoted shows a value from the file.
func Quoted(s string) string { return strconv.Quote(Cut(s)) }

// Cut shortens what would make a report unreadable.
func Cut(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
