package live

import (
	"hash/maphash"
	"sync/atomic"
)

// Sender tells a connection from all others, and who answers for it (PeerKey), for the
// gate to see who had more than others. The zero Sender is unknown.
type Sender struct{ source, peer uint64 }

// ofConnection is set in the numbers of connections, and not in those of accounts.
const ofConnection = 1 << 63

// The numbers of peers differ from process to process, so that nobody can choose an
// address to share one with somebody else.
var (
	peerSeed    = maphash.MakeSeed()
	connections atomic.Uint64
)

// NewSender returns the Sender of a new connection of a peer.
func NewSender(peer string) Sender {
	s := Sender{source: connections.Add(1) | ofConnection}
	if peer != "" {
		s.peer = maphash.String(peerSeed, peer) | 1 // 0 is nobody
	}
	return s
}
