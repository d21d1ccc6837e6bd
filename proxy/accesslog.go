package proxy

import (
	"bufio"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
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
	pending int64 // lines in the buffer; of the goroutine
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
	w := bufio.NewWriterSize(io.Discard, 64<<10)
	var file *os.File
	shut := func() {
		l.flush(w, file)
		if file != nil && file != os.Stderr && file != os.Stdout {
			l.note(file.Close())
		}
		file = nil
	}
	defer shut()
	for {
		select {
		case path, more := <-l.paths:
			l.drain(w, file)
			if !more {
				return
			}
			shut()
			var err error
			if file, err = openAccess(path); err != nil {
				l.note(err)
				file = nil
				w.Reset(io.Discard)
				continue
			}
			w.Reset(file)
		case line := <-l.lines:
			l.write(w, file, line)
			l.drain(w, file)
			l.flush(w, file)
		}
	}
}

// drain writes what waits.
func (l *accessLog) drain(w *bufio.Writer, file *os.File) {
	for {
		select {
		case line := <-l.lines:
			l.write(w, file, line)
		default:
			return
		}
	}
}

func (l *accessLog) write(w *bufio.Writer, file *os.File, line []byte) {
	if file == nil {
		l.dropped.Add(1)
		return
	}
	l.pending++
	if _, err := w.Write(line); err != nil {
		l.lost(w, file, err)
	}
}

// flush writes the buffer to the file, and counts its lines.
func (l *accessLog) flush(w *bufio.Writer, file *os.File) {
	if err := w.Flush(); err != nil {
		l.lost(w, file, err)
		return
	}
	l.written.Add(l.pending)
	l.pending = 0
}

// lost counts the lines of the buffer as dropped, and empties it: its error would stay after there
// is space again.
func (l *accessLog) lost(w *bufio.Writer, file *os.File, err error) {
	l.dropped.Add(l.pending)
	l.pending = 0
	l.note(err)
	w.Reset(file)
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
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
}
