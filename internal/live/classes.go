package live

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// Classes tells interactive requests from others by what became of earlier ones:
// see share.Classifier. Several Shares may learn together in one, as those of
// servers do that can stand in for each other. All its methods may be called at
// once from any goroutine.
type Classes struct {
	plain atomic.Bool // every kind has the default class: see share.Classifier.Plain

	mu   sync.Mutex
	core *share.Classifier
}

// NewClasses returns what knows nothing yet, or every mistake in cfg.
func NewClasses(cfg share.ClassifierConfig) (*Classes, error) {
	core, err := share.NewClassifier(cfg)
	if err != nil {
		return nil, err
	}
	c := &Classes{core: core}
	c.plain.Store(core.Plain())
	return c, nil
}

// Classify returns the class of requests with this key.
func (c *Classes) Classify(k share.Key) work.Class {
	if c.plain.Load() {
		return work.Default
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Classify(k)
}

// Explain returns the class of requests with this key, and why.
func (c *Classes) Explain(k share.Key) share.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Explain(k)
}

// Learn takes what one completed request with this key did.
// It returns the Isolated of such requests from now on: see share.Verdict.
func (c *Classes) Learn(k share.Key, did share.Course) (isolated time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isolated = c.core.Learn(k, did)
	if plain := c.core.Plain(); plain != c.plain.Load() { // to store takes much longer
		c.plain.Store(plain)
	}
	return isolated
}

// AppendVerdicts appends what is known of up to n keys, those learned last first,
// for display.
func (c *Classes) AppendVerdicts(to []share.Verdict, n int) []share.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.AppendVerdicts(to, n)
}

// Keys returns how many keys are known, and how many requests taught nothing
// because theirs is too long.
func (c *Classes) Keys() (known int, tooLong int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Keys(), c.core.TooLong()
}
