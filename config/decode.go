package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxMistakes bounds a report. A file that is not a configuration at all would
// make one for every line.
const maxMistakes = 100

// decoder walks a tree and collects mistakes. Its methods for values leave what
// they fill unchanged if there is something wrong.
type decoder struct {
	file     string
	mistakes []*Mistake
	// places says where each field stands, bad which fields have a mistake
	// already, both by path.
	places map[string]place
	bad    map[string]bool
}

type place struct{ line, column int }

// node is a value in the tree and the path that leads to it.
type node struct {
	ast  ast.Node
	path string
	at   place
}

// keys maps the keys of a mapping to what decodes their values.
type keys map[string]func(node)

// parse returns the root of the one document in data.
func (d *decoder) parse(data []byte) (node, bool) {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := place{}, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			message = syntax.GetMessage()
			if t := syntax.GetToken(); t != nil {
				at = tokenPlace(t)
			}
		}
		message, _, _ = strings.Cut(message, "\n")
		d.add(at, "", message, "YAML")
		return node{}, false
	}
	if len(file.Docs) > 1 {
		at := place{}
		if t := file.Docs[1].Start; t != nil {
			at = tokenPlace(t)
		}
		d.add(at, "", fmt.Sprintf("%d documents", len(file.Docs)), "one")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return node{ast: ast.Null(token.New("", "", &token.Position{})), at: place{1, 1}}, true
	}
	return node{ast: file.Docs[0].Body, at: place{1, 1}}, true
}

// object decodes a mapping. A null is an empty one, as of a key whose children
// are all commented out.
func (d *decoder) object(n node, known keys) { d.entries(n, known, names(known)) }

// entries decodes a mapping, whose keys are described by want.
func (d *decoder) entries(n node, known keys, want string) {
	if _, null := n.ast.(*ast.NullNode); null {
		return
	}
	var values []*ast.MappingValueNode
	switch m := n.ast.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.wrong(n, kind(n.ast), "keys and values: "+want)
		return
	}
	seen := map[string]place{}
	for _, v := range values {
		at := placeOf(v.Key)
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			d.add(at, n.path, kind(v.Key), "a key: "+want)
			continue
		}
		child := node{ast: v.Value, path: join2(n.path, key.Value), at: placeOf(v.Value)}
		if child.at.line == 0 {
			child.at = at
		}
		if first, dup := seen[key.Value]; dup {
			d.add(at, child.path, "the key comes twice", fmt.Sprintf("it once: line %d has it", first.line))
			continue
		}
		seen[key.Value] = at
		decode, ok := known[key.Value]
		if !ok {
			d.add(at, join2(n.path, cut(key.Value)), "unknown key", want)
			continue
		}
		d.places[child.path] = child.at
		decode(child)
	}
}

// table decodes a mapping whose keys are names that the file chooses.
func (d *decoder) table(n node, value func(key string, n node)) {
	known := keys{}
	var values []*ast.MappingValueNode
	switch m := n.ast.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	}
	for _, v := range values {
		if key, ok := v.Key.(*ast.StringNode); ok {
			known[key.Value] = func(n node) { value(key.Value, n) }
		}
	}
	d.entries(n, known, "names, each with its keys and values")
}

// list decodes a list. A single value stands for a list of one.
func (d *decoder) list(n node, element func(node)) {
	s, ok := n.ast.(*ast.SequenceNode)
	if !ok {
		if _, null := n.ast.(*ast.NullNode); null {
			return
		}
		n.path += "[0]"
		d.places[n.path] = n.at
		element(n)
		return
	}
	for i, v := range s.Values {
		child := node{ast: v, path: fmt.Sprintf("%s[%d]", n.path, i), at: placeOf(v)}
		if child.at.line == 0 {
			child.at = n.at
		}
		d.places[child.path] = child.at
		element(child)
	}
}

// scalar reports whether n is a plain value, or something that should be one.
func (n node) scalar() bool {
	switch n.ast.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.NullNode:
		return false
	}
	return true
}

// text decodes a string. Numbers are taken as they stand, so that nobody has to
// know what YAML thinks is a number.
func (d *decoder) text(n node, to *string) bool {
	switch v := n.ast.(type) {
	case *ast.StringNode:
		*to = v.Value
	case *ast.IntegerNode, *ast.FloatNode:
		*to = v.GetToken().Value
	default:
		d.wrong(n, kind(n.ast), "a text")
		return false
	}
	if *to == "" {
		d.wrong(n, `""`, "a text that is not empty")
		return false
	}
	return true
}

func (d *decoder) duration(n node, to *time.Duration) {
	const want = "a duration such as 100ms, 2s or 1m30s"
	switch v := n.ast.(type) {
	case *ast.StringNode:
		t, err := time.ParseDuration(v.Value)
		if err != nil || t < 0 {
			d.wrong(n, quoted(v.Value), want)
			return
		}
		*to = t
	case *ast.IntegerNode, *ast.FloatNode:
		if s := n.ast.GetToken().Value; s != "0" {
			d.wrong(n, cut(s)+" without a unit", want)
			return
		}
		*to = 0
	default:
		d.wrong(n, kind(n.ast), want)
	}
}

func (d *decoder) integer(n node, to *int) {
	const want = "a whole number of at least 0"
	v, ok := n.ast.(*ast.IntegerNode)
	if !ok {
		value := kind(n.ast)
		if n.scalar() && n.ast.GetToken() != nil {
			value = quoted(n.ast.GetToken().Value)
		}
		d.wrong(n, value, want)
		return
	}
	s := v.GetToken().Value
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 {
		d.wrong(n, cut(s), want)
		return
	}
	*to = i
}

func (d *decoder) number(n node, to *float64) bool {
	const want = "a number of at least 0"
	switch n.ast.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s := n.ast.GetToken().Value
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 1) {
			d.wrong(n, cut(s), want)
			return false
		}
		*to = x
		return true
	}
	d.wrong(n, kind(n.ast), want)
	return false
}

func (d *decoder) boolean(n node, to *bool) {
	v, ok := n.ast.(*ast.BoolNode)
	if !ok {
		value := kind(n.ast)
		if s, text := n.ast.(*ast.StringNode); text {
			value = quoted(s.Value)
		}
		d.wrong(n, value, "true or false")
		return
	}
	*to = v.Value
}

// wrong notes a mistake in the value of n.
func (d *decoder) wrong(n node, value, want string) {
	d.bad[n.path] = true
	d.add(n.at, n.path, value, want)
}

func (d *decoder) add(at place, path, value, want string) {
	if len(d.mistakes) < maxMistakes {
		d.mistakes = append(d.mistakes, &Mistake{d.file, at.line, at.column, path, value, want})
	}
}

// locate returns where the field with that path stands, or else what contains
// it. It reports false if the field, or what contains it, is known to be wrong:
// one mistake should not make two lines.
func (d *decoder) locate(path string) (at place, fresh bool) {
	at = place{1, 1}
	found := false
	for path != "" {
		if d.bad[path] {
			return place{}, false
		}
		if p, ok := d.places[path]; ok && !found {
			at, found = p, true
		}
		path = path[:max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['), 0)]
	}
	return at, !d.bad[""]
}

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
		return cut(n.GetToken().Value)
	case *ast.StringNode:
		return quoted(n.Value)
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

// names lists keys in alphabetical order.
func names(known keys) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

func join2(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// quoted shows a value from the file.
func quoted(s string) string { return strconv.Quote(cut(s)) }

// cut shortens what would make a report unreadable.
func cut(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
