package backplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// A NATS server that finds its disk full ends its JetStream, or a stream of it then takes
// nothing any more and does not say so; both for good. Here JetStream begins again when
// there is room. Meanwhile messages that are to be stored are refused at once on a single
// node; where there are several, the others store them.

const (
	// diskPause is how often it is looked at whether the disk is full.
	diskPause = 500 * time.Millisecond
	// stuckTime is for how long the log of a single node must not answer before JetStream is
	// begun again: half of the default of Config.Patience, so that a slow disk has time, and
	// messages that wait are told meanwhile.
	stuckTime = 10 * time.Second
	// diskRoom is how many bytes have to fit on the disk before JetStream begins again: with
	// less, it would be full again after a second at 10,000 messages of 1 KB a second.
	diskRoom = 16 << 20
	// logBytes is what the log may become unless it is said: it holds 2 hours of 1,000 messages of 1 KB a second.
	logBytes = 8 << 30
	// leastLog is the smallest log that is made unless another size is said: below it nobody who is away for a minute could
	// catch up at 1,000 messages of 1 KB a second.
	leastLog = 64 << 20
)

// logSize returns how large the log may become: as was said; else as it is, if it exists; else half of what NATS
// may use of the disk of this node, and halved as often as the disks of others had no room for it. The other half is for what clients keep.
func (p *Plane) logSize(ctx context.Context) (bytes int64, err error) {
	if p.cfg.MaxBytes > 0 {
		return int64(p.cfg.MaxBytes), nil
	}
	err = p.ask(ctx, func(ctx context.Context) error {
		s, err := p.js.Stream(ctx, logStream)
		if err == nil {
			bytes, p.sized = s.CachedInfo().Config.MaxBytes, true
		}
		return err
	})
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return bytes, err
	}
	bytes = logBytes
	if p.server != nil {
		if limits := p.server.JetStreamConfig(); limits != nil {
			bytes = min(bytes, limits.MaxStore/2)
		}
	}
	return bytes >> p.halved, nil
}

// smaller has a log that does not exist yet, and whose size nobody said, be half as large in the next attempt, and reports whether it may.
func (p *Plane) smaller() bool {
	if p.cfg.MaxBytes > 0 || p.sized || p.size/2 < leastLog {
		return false
	}
	p.halved++
	return true
}

// watchDisk has JetStream begin again, until the plane is closed. limits are those that it
// began with.
func (p *Plane) watchDisk(limits server.JetStreamConfig) {
	limits.StoreDir = p.cfg.Data // without the directory below that it makes
	for p.sleep(diskPause); p.ctx.Err() == nil; p.sleep(diskPause) {
		on := p.server.JetStreamEnabled()
		if on && !p.stuck.Load() {
			if p.full.Swap(false) {
				p.log.Info("messages are stored again", "data", p.cfg.Data)
			}
			continue
		}
		var err error
		if on {
			err = p.server.ShutdownJetStream()
		}
		if !p.full.Swap(true) {
			p.log.Error("nothing is stored at this node until there is room on its disk", "data", p.cfg.Data, "bytes", diskRoom)
		}
		if err == nil && p.server.JetStreamConfig() == nil { // it has ended
			if err = p.room(p.cfg.Data, diskRoom); err == nil {
				err = p.enable(limits)
			}
			p.stuck.Store(err != nil)
		}
		if err != nil {
			p.log.Debug("nothing is stored", "data", p.cfg.Data, "error", err)
		}
	}
}

// enable has JetStream begin. The clients of a single node are disconnected meanwhile. With other nodes they are not: they may hear
// messages of those, which come once.
func (p *Plane) enable(limits server.JetStreamConfig) error {
	if p.alone {
		p.door.shut()
		defer p.door.open()
	}
	return p.server.EnableJetStream(&limits)
}

// room returns an error if n bytes cannot be written to a directory.
func room(dir string, n int) (err error) {
	f, err := os.CreateTemp(dir, "room-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(filepath.Clean(f.Name()))) }()
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = byte(i) // zeros may take no room
	}
	for ; n > 0; n -= len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
	return f.Sync()
}

// noRoom is of a disk that is smaller than the log may become.
func (p *Plane) noRoom(err error) error {
	return fmt.Errorf("backplane: the disk of %s has no room for a log of %d bytes: make room, or set max_bytes lower (%w)", p.cfg.Data, p.size, err)
}
