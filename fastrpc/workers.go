package fastrpc

import "sync"

// mostIdle is the most goroutines that wait for a call. To hand a call to one of them costs
// what it costs to start one, and their stacks have grown already.
const mostIdle = 256

// workers are the goroutines that run handlers. The zero value is ready.
type workers struct {
	mu     sync.Mutex
	idle   []chan *incoming
	closed bool
	all    sync.WaitGroup
}

// run has a goroutine take the call. It never waits. Nobody may call it once close is called.
func (w *workers) run(r *incoming) {
	w.mu.Lock()
	if last := len(w.idle) - 1; last >= 0 {
		next := w.idle[last]
		w.idle = w.idle[:last]
		w.mu.Unlock()
		next <- r // never blocks: it has room for one
		return
	}
	w.all.Add(1)
	w.mu.Unlock()
	go w.work(r)
}

func (w *workers) work(r *incoming) {
	defer w.all.Done()
	next := make(chan *incoming, 1)
	for r != nil {
		r.run()
		w.mu.Lock()
		if w.closed || len(w.idle) >= mostIdle {
			w.mu.Unlock()
			return
		}
		w.idle = append(w.idle, next)
		w.mu.Unlock()
		r = <-next
	}
}

// close ends the goroutines, and returns when handlers have returned.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	for _, next := range w.idle {
		next <- nil
	}
	w.idle = nil
	w.mu.Unlock()
	w.all.Wait()
}
