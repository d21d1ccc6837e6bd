package taskfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"
)

// File is a mapped task file. Its methods may be called concurrently, except
// Close, after which nothing of it may be used.
type File struct {
	path  string
	disk  *os.File
	geo   Geometry
	place Place
	self  Token
	mem   []byte
	live  *liveWords
	watch stopwatch
	next  atomic.Uint32 // where the next search for a free slot begins
	warm  sync.Pool     // of *uint32: slots that tasks of this process ended in
	_     [line]byte
	begun atomic.Uint64 // when a task of this process began last, to a millisecond; each reads it, so nothing else is beside it
	_     [line]byte
}

// Open maps the task file at path, and creates it with the given geometry if
// there is none. The geometry of an existing file holds. A file that is
// damaged, of another version, of another user or otherwise not ours is refused
// with a *Refusal and left as it is.
func Open(path string, g Geometry) (*File, error) {
	place, self, err := here()
	if err != nil {
		return nil, err
	}
	return openAs(path, g, place, self)
}

// openAs is Open for a process that is given its identity, as in vectors.
func openAs(path string, g Geometry, place Place, self Token) (*File, error) {
	if bigEndian {
		return nil, errors.New("taskfile: this machine is big-endian; task files are little-endian")
	}
	g = g.withDefaults()
	if !g.valid() {
		return nil, fmt.Errorf("taskfile: %d slots (1 to %d), %d resources (1 to %d), %d kinds (0 to %d)",
			g.Slots, maxSlots, g.Resources, maxResources, g.Kinds, maxKinds)
	}
	// Somebody may create or remove the file between the two steps.
	const tries = 3
	for try := 1; ; try++ {
		f, err := openExisting(path, place, self)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, located(err, path)
		}
		if try == tries {
			return nil, fmt.Errorf("taskfile: %s vanishes as soon as it is created: %w", path, err)
		}
		if err := create(path, g, place); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

func openExisting(path string, place Place, self Token) (*File, error) {
	disk, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	f, err := newFile(disk, size, place, self)
	if err != nil {
		disk.Close()
		return nil, err
	}
	f.path = path
	return f, nil
}

func newFile(disk *os.File, size int64, place Place, self Token) (*File, error) {
	header := make([]byte, min(headerBytes, size))
	if _, err := disk.ReadAt(header, 0); err != nil {
		return nil, refuse("short", "its header cannot be read: %v", err)
	}
	g, err := parseHeader(header, size, place)
	if err != nil {
		return nil, err
	}
	watch, err := newStopwatch()
	if err != nil {
		return nil, err
	}
	mem, err := mapFile(disk, g.fileBytes())
	if err != nil {
		return nil, err
	}
	return &File{disk: disk, geo: g, place: place, self: self, mem: mem, watch: watch,
		live: (*liveWords)(unsafe.Pointer(&mem[clockOffset]))}, nil
}

// create writes a whole new file under another name and links it to path. Its
// error is fs.ErrExist if path exists by then.
func create(path string, g Geometry, place Place) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new") // mode 0600
	if err != nil {
		return fmt.Errorf("taskfile: cannot create %s: %w", path, err)
	}
	defer os.Remove(temp.Name())
	content := make([]byte, g.fileBytes())
	copy(content, encodeHeader(g, place))
	if _, err = temp.Write(content); err == nil {
		err = temp.Close()
	}
	if err != nil {
		temp.Close()
		return fmt.Errorf("taskfile: cannot write %s, %d bytes: %w", path, len(content), err)
	}
	return os.Link(temp.Name(), path)
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// Geometry returns what the file has room for.
func (f *File) Geometry() Geometry { return f.geo }

// Mode returns the mode that the engine asks for.
func (f *File) Mode() Mode { return modeOf(atomic.LoadUint64(&f.live.clock)) }

// Untraced returns how many tasks found no free slot.
func (f *File) Untraced() uint64 { return atomic.LoadUint64(&f.live.untraced) }

// Cancels returns how many cancels the engine has asked for, over all tasks.
// A tracer that sees it change calls Cancelled of its slots.
func (f *File) Cancels() uint64 { return atomic.LoadUint64(&f.live.cancels) }

// Whole reports whether the file still has its size. A tracer asks now and
// then, and lets go of a file that was truncated, because the next event could
// end its process.
func (f *File) Whole() bool {
	info, err := f.disk.Stat()
	return err == nil && info.Size() == int64(len(f.mem))
}

// Detach puts private memory in place of the file. Slots that are in use stay
// usable, and nobody sees what they record any more.
func (f *File) Detach() error { return detachFile(f.mem) }

// Close unmaps the file. No slot may be in use.
func (f *File) Close() error { return errors.Join(unmapFile(f.mem), f.disk.Close()) }

// kept returns the table of kinds that are kept out.
func (f *File) kept() *[mostKept]keepWords {
	return (*[mostKept]keepWords)(unsafe.Pointer(&f.mem[keptOffset]))
}

// words returns the start of slot i.
func (f *File) words(i int) *slotWords {
	return (*slotWords)(unsafe.Pointer(&f.mem[f.geo.slotsOffset()+i*f.geo.slotBytes()]))
}

// cells returns the cells of slot i.
func (f *File) cells(i int) []Cell {
	at := f.geo.slotsOffset() + i*f.geo.slotBytes() + slotHead
	return unsafe.Slice((*Cell)(unsafe.Pointer(&f.mem[at])), f.geo.Resources)
}

// latencies returns the latency counters of slot i.
func (f *File) latencies(i int) *[latencies]uint32 {
	at := f.geo.slotsOffset() + i*f.geo.slotBytes() + slotHead + cellBytes*f.geo.Resources
	return (*[latencies]uint32)(unsafe.Pointer(&f.mem[at]))
}
