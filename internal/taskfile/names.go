package taskfile

import (
	"fmt"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// ResourceKind says how a resource is contended for.
type ResourceKind uint64

const (
	// Lock is held by one task, or by readers.
	Lock ResourceKind = 1 + iota
	// Memory is a pool or cache whose units are displaced.
	Memory
	// Queue is a set of workers or connections that tasks queue for.
	Queue
	// System is processor time, input and output.
	System
)

// maxName is the longest name, in bytes; a longer one is cut.
const maxName = 96

type nameWords struct {
	state, kind, hash, length uint64
	text                      [maxName]byte
}

var _ = [1]struct{}{}[unsafe.Sizeof(nameWords{})-nameBytes]

// Resource returns the number of the resource with this name and kind, and
// gives it one if it has none. It is called once for a resource, not for each
// event. The error is that the table is full, or that the name cannot be one;
// the number is then -1, which no event traces.
func (f *File) Resource(name string, kind ResourceKind) (int, error) {
	if kind < Lock || kind > System {
		return -1, fmt.Errorf("taskfile: resource %q has kind %d, expected 1 (lock) to 4 (system)", name, kind)
	}
	return f.intern(f.resourceNames(), name, uint64(kind))
}

// Kind returns the fingerprint of a kind of task, and makes its name known. If
// the table of names is full, the fingerprint holds all the same.
func (f *File) Kind(name string) uint64 {
	name = cut(name)
	f.intern(f.kindNames(), name, 0)
	return Fingerprint(name)
}

func (f *File) resourceNames() []nameWords {
	return unsafe.Slice((*nameWords)(unsafe.Pointer(&f.mem[headerBytes])), f.geo.Resources)
}

func (f *File) kindNames() []nameWords {
	if f.geo.Kinds == 0 {
		return nil
	}
	return unsafe.Slice((*nameWords)(unsafe.Pointer(&f.mem[f.geo.kindsOffset()])), f.geo.Kinds)
}

func (f *File) intern(table []nameWords, name string, kind uint64) (int, error) {
	name = cut(name)
	if !validName(name) {
		return -1, fmt.Errorf("taskfile: the name %q is empty, no UTF-8, or has control characters", name)
	}
	for i := range table {
		if e := &table[i]; e.is(name, kind) {
			return i, nil
		}
	}
	for i := range table {
		e := &table[i]
		if atomic.LoadUint64(&e.state) == 0 && atomic.CompareAndSwapUint64(&e.state, 0, uint64(f.self)) {
			e.write(name, kind)
			return i, nil
		}
	}
	return -1, fmt.Errorf("taskfile: no room for the name %q, the file has %d such names; create it with more", name, len(table))
}

// write fills an entry that was claimed.
func (e *nameWords) write(name string, kind uint64) {
	e.kind, e.hash, e.length = kind, Fingerprint(name), uint64(len(name))
	e.text = [maxName]byte{}
	copy(e.text[:], name)
	atomic.StoreUint64(&e.state, nameReady)
}

// is reports whether a complete entry has this name and kind.
func (e *nameWords) is(name string, kind uint64) bool {
	text, k, ok := e.read()
	return ok && k == kind && text == name
}

// read returns the name and kind of a complete entry that keeps the rules.
func (e *nameWords) read() (name string, kind uint64, ok bool) {
	if atomic.LoadUint64(&e.state) != nameReady {
		return "", 0, false
	}
	length := e.length
	if length == 0 || length > maxName {
		return "", 0, false
	}
	text := e.text // a copy, so it cannot change between the check and the use
	name = string(text[:length])
	return name, e.kind, e.hash == Fingerprint(name) && validName(name)
}

// cut shortens a name to the whole characters that fit.
func cut(name string) string {
	if len(name) <= maxName {
		return name
	}
	end := maxName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

func validName(name string) bool {
	if name == "" || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}
