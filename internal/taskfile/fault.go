package taskfile

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrGone is what an engine returns once its file has lost pages, as when
// somebody truncated it. The engine is of no more use.
var ErrGone = errors.New("taskfile: the file was truncated while it was mapped; remove it, and start the application and the engine again")

// guarded runs f, which reads or writes the mapping. A load from a page that the
// file has no more raises SIGBUS; the runtime turns it into a panic here, and
// that becomes ErrGone. Other panics go on.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		fault, ok := p.(interface {
			error
			Addr() uintptr
		})
		if !ok {
			panic(p)
		}
		err = fmt.Errorf("%w (%v)", ErrGone, fault)
	}()
	return f()
}
