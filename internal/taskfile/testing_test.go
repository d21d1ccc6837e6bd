package taskfile

import (
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/spillgate/spillgate/internal/needs"
)

// small is a geometry whose files are quick to make.
var small = Geometry{Slots: 4, Resources: 3, Kinds: 2}

// fakePlace and fakeToken are the identity that vectors are written with.
var fakePlace = Place{Boot: [16]byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, PIDNamespace: 4026531836}

const fakeToken Token = 123456<<pidBits | 4242

// over returns a File on memory, which no other process sees.
func over(g Geometry, mem []byte) *File {
	return &File{path: "memory", geo: g, place: fakePlace, self: fakeToken, mem: mem, watch: stopwatch{base: time.Now(), at: 1e12},
		live: (*liveWords)(unsafe.Pointer(&mem[clockOffset]))}
}

// inMemory returns a new, empty file.
func inMemory(g Geometry) *File {
	g = g.withDefaults()
	mem := make([]byte, g.fileBytes())
	copy(mem, encodeHeader(g, fakePlace))
	return over(g, mem)
}

// attached returns an engine for a file in memory, and the file.
func attached(t testing.TB, f *File) *Engine {
	t.Helper()
	e, err := attach(f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// onDisk attaches an engine to a new file and opens it as a tracer would.
func onDisk(t testing.TB, g Geometry) (*Engine, *File) {
	t.Helper()
	needs.Dir(t, "/proc/self/ns") // Linux
	path := filepath.Join(t.TempDir(), "tasks")
	e, err := Attach(path, g)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	return e, f
}

// at sets the clock of a file in memory.
func (f *File) at(now uint64, m Mode) { f.live.clock = packClock(now, m) }
