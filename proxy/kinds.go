package proxy

import (
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

const (
	// maxKinds is the most kinds of requests of which more is remembered than
	// share.Classifier does. Beyond it all are forgotten; those that still come are
	// soon known again.
	maxKinds = 4096
	// shortTime is the quantile of a call's times that is taken for its time without
	// queues, where the callee does not say. Three stages at 80 % load are as fast
	// as that without queueing in 3 % of the calls, one in 18 %.
	shortTime = 0.1
	// shortGain is how far one call moves it, as a logarithm, divided by how rare
	// such a call is.
	shortGain = 0.2
)

// kinds remembers of kinds of requests what was said of them, and how fast the
// calls are that are made for them.
type kinds struct {
	mu  sync.Mutex
	all map[share.Key]*habit
}

// habit is what is remembered of one kind.
type habit struct {
	class work.Class
	why   string  // empty: as learned
	short float64 // quantile of the times of calls, in ns
}

// of returns what is remembered of a key, with the lock held.
func (k *kinds) of(key share.Key) *habit {
	have := k.all[key]
	if have == nil {
		if k.all == nil || len(k.all) >= maxKinds {
			k.all = map[share.Key]*habit{}
		}
		have = &habit{}
		k.all[key] = have
	}
	return have
}

// given notes which class a request had, and why if it was not learned.
func (k *kinds) given(key share.Key, class work.Class, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if why == "" && k.all[key] == nil {
		return
	}
	of := k.of(key)
	of.class, of.why = class, why
}

// last returns what given noted; why is empty if the class was learned.
func (k *kinds) last(key share.Key) (class work.Class, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if of := k.all[key]; of != nil {
		return of.class, of.why
	}
	return 0, ""
}

// isolated returns what a call that took so long takes when nothing queues, as
// far as other calls of the same kind tell.
func (k *kinds) isolated(key share.Key, took time.Duration) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	of, x := k.of(key), float64(max(took, 1))
	switch {
	case of.short == 0:
		of.short = x
	case x < of.short:
		of.short *= math.Exp(-shortGain * (1 - shortTime))
	default:
		of.short *= math.Exp(shortGain * shortTime)
	}
	return min(took, time.Duration(of.short))
}

// caller is who sent a request, as far as it says: the value of a header, of
// User-Agent its first word without a version.
func caller(h http.Header, name string) string {
	v := h[name]
	if len(v) != 1 {
		return ""
	}
	who := v[0]
	if name == "User-Agent" {
		if end := strings.IndexAny(who, " /("); end >= 0 {
			who = who[:end]
		}
	}
	who = cutName(who)
	for i := range len(who) {
		if who[i] <= ' ' || who[i] > '~' {
			return ""
		}
	}
	return who
}

func cutName(s string) string { return s[:min(len(s), maxName)] }
