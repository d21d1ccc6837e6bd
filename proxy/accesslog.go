package proxy

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/culprit/audit"
)

const (
	// accessQueue is how many lines may wait for being written. One more is dropped.
	accessQueue = 4096
	// accessFlush is how long the end of the program waits for lines to be written.
	accessFlush = time.Second
)

// accessLog writes lines to a file from a goroutine of its own. put may be called at once
// from any goroutine; aim and close are called by one at a time.
type accessLog struct {
	log     *slog.Logger
	lines   chan []byte
	paths   chan string // to write to from now on; closed at the end
	done    chan struct{}
	dropped atomic.Int64
	written atomic.Int64
	warned  throttle
}

func newAccessLog(log *slog.Logger) *accessLog {
	l := &accessLog{log: log, lines: make(chan []byte, accessQueue), paths: make(chan string), done: make(chan struct{})}
	go l.run()
	return l
}

// openAccess has the access log written to the file of that path, which is opened again if
// it is already. The lock is held.
func (p *Proxy) openAccess(path string) {
	l := p.access.Load()
	if path == "" {
		return // what is there writes the last requests, and is closed with the proxy
	}
	if l == nil {
		l = newAccessLog(p.log)
		p.access.Store(l)
	}
	l.aim(path)
}

// put has a line written, or drops it if too many wait.
func (l *accessLog) put(line []byte) {
	select {
	case l.lines <- line:
	default:
		l.dropped.Add(1)
	}
}

// aim has the file of that path opened, again if it is the one that is written to.
func (l *accessLog) aim(path string) {
	select {
	case l.paths <- path:
	case <-time.After(accessFlush): // what is written to takes nothing
		l.log.Error("access log is not opened again: writing to it takes too long", "path", path)
	}
}

// close writes what waits, and ends the goroutine.
func (l *accessLog) close() {
	close(l.paths)
	select {
	case <-l.done:
	case <-time.After(accessFlush):
	}
}

func (l *accessLog) run() {
	defer close(l.done)
	to := &accessFile{l: l}
	defer to.shut()
	for {
		select {
		case path, more := <-l.paths:
			l.drain(to)
			if !more {
				return
			}
			to.shut()
			file, err := openAccess(path)
			if err != nil {
				l.note(err)
				continue
			}
			to.file, to.whole = file, audit.NewLines(file)
		case line := <-l.lines:
			to.write(line)
			l.drain(to)
			to.flush()
		}
	}
}

// drain writes what waits.
func (l *accessLog) drain(to *accessFile) {
	for {
		select {
		case line := <-l.lines:
			to.write(line)
		default:
			return
		}
	}
}

// accessBuffer is how many bytes of lines are written at once, about.
const accessBuffer = 64 << 10

// accessFile is what the log is written to. It belongs to the goroutine of the log.
type accessFile struct {
	l     *accessLog
	file  *os.File // nil: there is none
	whole *audit.Lines
	buf   []byte // lines that are not written yet
	lines int64  // in buf
}

func (f *accessFile) write(line []byte) {
	if f.file == nil {
		f.l.dropped.Add(1)
		return
	}
	f.buf = append(f.buf, line...)
	if f.lines++; len(f.buf) >= accessBuffer {
		f.flush()
	}
}

// flush writes the buffer to the file, and counts its lines: as dropped if some may be lost.
func (f *accessFile) flush() {
	if f.lines == 0 {
		return
	}
	if err := f.whole.Append(f.buf); err != nil {
		f.l.dropped.Add(f.lines)
		f.l.note(err)
	} else {
		f.l.written.Add(f.lines)
	}
	f.buf, f.lines = f.buf[:0], 0
}

// shut writes the buffer and closes the file.
func (f *accessFile) shut() {
	f.flush()
	if f.file != nil && f.file != os.Stderr && f.file != os.Stdout {
		f.l.note(f.file.Close())
	}
	f.file, f.whole = nil, nil
}

// note says in the log, now and then, what went wrong.
func (l *accessLog) note(err error) {
	if err == nil {
		return
	}
	if skipped, ok := l.warned.allow(10 * time.Second); ok {
		l.log.Error("access log is not written", "error", err, "also", skipped)
	}
}

func openAccess(path string) (*os.File, error) {
	switch path {
	case "stderr":
		return os.Stderr, nil
	case "stdout":
		return os.Stdout, nil
	}
	return audit.Append(path, 0o640)
}
