package backplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
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
)

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
				err = p.server.EnableJetStream(&limits)
			}
			p.stuck.Store(err != nil)
		}
		if err != nil {
			p.log.Debug("nothing is stored", "data", p.cfg.Data, "error", err)
		}
	}
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
func (c Config) noRoom(err error) error {
	return fmt.Errorf("backplane: the disk of %s has no room for a log of %d bytes: make room, or set max_bytes lower (%w)", c.Data, c.MaxBytes, err)
}
