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
		l.note(w.Flush())
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
			l.note(w.Flush())
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
	if _, err := w.Write(line); err != nil {
		l.dropped.Add(1)
		l.note(err)
		w.Reset(file) // or the error would stay after there is space again
		return
	}
	l.written.Add(1)
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
