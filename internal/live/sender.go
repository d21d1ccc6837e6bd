package live

import (
	"cmp"
	"hash/maphash"
	"sync/atomic"
)

// Sender tells a connection from all others, and who answers for it (PeerKey), for the
// gate to see who had more than others, and whose turn a request takes (GateConfig.NoTurns). The zero Sender is unknown.
type Sender struct{ source, peer, whom uint64 }

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

// Whose tells those who take turns apart: the client that For was told of, else the peer, else the connection. That of the
// zero Sender is 0.
func (s Sender) Whose() uint64 { return cmp.Or(s.whom, s.peer, s.source) }

// For returns the Sender of a request that s sends for somebody else, as a proxy does, whose turn it takes: that of a
// client that it names, such as an address, or, if it names none, one of its connection's own.
func (s Sender) For(client string) Sender {
	if s.whom = s.source; client != "" {
		s.whom = maphash.String(peerSeed, client) | 1
	}
	return s
}
