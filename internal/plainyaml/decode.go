package plainyaml

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/spillgate/spillgate/internal/spelling"
)

// MaxMistakes bounds a report, in mistakes. A file that is not what it should be at
// all would make one for every line.
const MaxMistakes = 100

// Decoder walks a tree and collects mistakes. Its methods for values leave what
// they fill unchanged if there is something wrong with the value.
type Decoder struct {
	file     string
	mistakes []*Mistake
	// places says where each field stands, bad which fields have a mistake
	// already, both by path.
	places map[string]place
	bad    map[string]bool
}

// New returns a decoder of a file that is called name in mistakes.
func New(name string) *Decoder {
	return &Decoder{file: name, places: map[string]place{}, bad: map[string]bool{}}
}

// Keys maps the keys of a mapping to what decodes their values.
type Keys map[string]func(Node)

// Parse returns the root of the one document in data.
func (d *Decoder) Parse(data []byte) (Node, bool) {
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
		return Node{}, false
	}
	if len(file.Docs) > 1 {
		at := place{}
		if t := file.Docs[1].Start; t != nil {
			at = tokenPlace(t)
		}
		d.add(at, "", fmt.Sprintf("%d documents", len(file.Docs)), "one")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return Node{ast: ast.Null(token.New("", "", &token.Position{})), at: place{1, 1}}, true
	}
	return Node{ast: file.Docs[0].Body, at: place{1, 1}}, true
}

// Object decodes a mapping. A null is an empty one, as of a key whose children
// are all commented out.
func (d *Decoder) Object(n Node, known Keys) { d.entries(n, known, names(known)) }

// entries decodes a mapping, whose keys are described by want.
func (d *Decoder) entries(n Node, known Keys, want string) {
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
		d.Wrong(n, kind(n.ast), "keys and values: "+want)
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
		child := Node{ast: v.Value, path: join2(n.path, key.Value), at: placeOf(v.Value)}
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
			expected := want
			if meant := spelling.Closest(key.Value, slices.Collect(maps.Keys(known))); meant != "" {
				expected = meant + ", or one of " + want
			}
			d.add(at, join2(n.path, Cut(key.Value)), "unknown key", expected)
			continue
		}
		d.places[child.path] = child.at
		decode(child)
	}
}

// Table decodes a mapping whose keys are names that the file chooses.
func (d *Decoder) Table(n Node, value func(key string, n Node)) {
	known := Keys{}
	var values []*ast.MappingValueNode
	switch m := n.ast.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	}
	for _, v := range values {
		if key, ok := v.Key.(*ast.StringNode); ok {
			known[key.Value] = func(n Node) { value(key.Value, n) }
		}
	}
	d.entries(n, known, "names, each with its keys and values")
}

// List decodes a list. A single value stands for a list of one.
func (d *Decoder) List(n Node, element func(Node)) {
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
		child := Node{ast: v, path: fmt.Sprintf("%s[%d]", n.path, i), at: placeOf(v)}
		if child.at.line == 0 {
			child.at = n.at
		}
		d.places[child.path] = child.at
		element(child)
	}
}

// Alias says that what is decoded from n is the field at path too, so that
// mistakes in it are found there, and returns n with that path. It serves short
// forms, in which one value stands for several fields.
func (d *Decoder) Alias(n Node, path string) Node {
	n.path = path
	d.places[path] = n.at
	return n
}

// locate returns where the field with that path stands, or else what contains
// it. It reports false if the field, or what contains it, is known to be wrong.
func (d *Decoder) locate(path string) (at place, fresh bool) {
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

// names lists keys in alphabetical order.
func names(known Keys) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

func join2(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
