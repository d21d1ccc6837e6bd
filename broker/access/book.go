package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/engine"
)

// Why a client is not let in. What it is told should not say more.
var (
	// ErrUnknown is a name or a password that is wrong.
	ErrUnknown = errors.New("the name or the password is wrong")
	// ErrAnonymous is a client without a name, where one is needed.
	ErrAnonymous = errors.New("a name and a password are needed")
)

// Identity is who a client is. It does not change.
type Identity struct {
	name               string
	publish, subscribe []string // nil: all
	entry              *entry   // nil: anonymous
}

// Name returns the user's name, empty for an anonymous client.
func (i *Identity) Name() string { return i.name }

// MayPublish reports whether messages may be published to a topic. It takes time in
// proportion to the user's rights, so ask once for each topic.
func (i *Identity) MayPublish(topic string) bool {
	return i.publish == nil || slices.ContainsFunc(i.publish, func(p string) bool { return engine.Matches(p, topic) })
}

// MaySubscribe reports whether the user may have all that a filter matches.
func (i *Identity) MaySubscribe(filter string) bool {
	return i.subscribe == nil || slices.ContainsFunc(i.subscribe, func(p string) bool { return covers(p, filter) })
}

// entry is a user as it stands in a book.
type entry struct {
	User
	hash string
	// known is the keyed sum of the password that was right last: a client that comes
	// again costs no bcrypt. The key is in this process alone.
	known atomic.Pointer[[sha256.Size]byte]
}

// page is what a configuration says; it does not change.
type page struct {
	cfg   Config
	users map[string]*entry
}

// Book knows the users. Its methods may be called from any goroutine.
type Book struct {
	key   [32]byte // of the sums of passwords
	none  []byte   // the hash that is compared for users that are not known
	turns chan struct{}

	change sync.Mutex
	page   atomic.Pointer[page]
}

// New returns a book of the users of cfg, which must be free of mistakes, or says
// what is wrong with its file.
func New(cfg Config) (*Book, error) {
	b := &Book{turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	_, _ = rand.Read(b.key[:]) // never fails
	b.none, _ = bcrypt.GenerateFromPassword(b.key[:16], bcrypt.MinCost)
	return b, b.Set(cfg)
}

// Set takes other users, or leaves all as it was and says what is wrong with the
// file. Entries that did not change keep their identities valid.
func (b *Book) Set(cfg Config) error {
	b.change.Lock()
	defer b.change.Unlock()
	hashes := map[string]string{}
	if cfg.Passwords != "" {
		var err error
		if hashes, err = cfg.passwords(); err != nil {
			return err
		}
	}
	p := &page{cfg: cfg, users: map[string]*entry{}}
	var others *User
	for i := range cfg.Users {
		u := cfg.Users[i]
		if u.Name == Everybody {
			others = &u
			continue
		}
		p.users[u.Name] = &entry{User: u, hash: u.Password}
	}
	for name, hash := range hashes {
		switch e := p.users[name]; {
		case e == nil:
			p.users[name] = &entry{User: User{Name: name, Publish: others.Publish, Subscribe: others.Subscribe}, hash: hash}
		case e.hash == "":
			e.hash = hash
		}
	}
	if old := b.page.Load(); old != nil {
		for name, e := range p.users {
			if was := old.users[name]; was != nil && was.hash == e.hash && reflect.DeepEqual(was.User, e.User) {
				p.users[name] = was
			}
		}
	}
	b.page.Store(p)
	return nil
}

// Users returns how many there are.
func (b *Book) Users() int { return len(b.page.Load().users) }

// Needed reports whether the client of a connection has to say who it is.
func (b *Book) Needed(nc net.Conn) bool { return !b.page.Load().open(nc) }

// open reports whether an anonymous client of a connection is let in.
func (p *page) open(nc net.Conn) bool {
	from := p.cfg.From()
	return from == "anywhere" || from == "loopback" && local(nc)
}

// Enter says who the client of a connection is, which says its name and password;
// both are empty if it does not. The error is ErrUnknown, ErrAnonymous or that of
// ctx, as many may be comparing passwords.
func (b *Book) Enter(ctx context.Context, nc net.Conn, name, password string) (*Identity, error) {
	p := b.page.Load()
	if e := p.users[commonName(nc)]; e != nil && e.Certificate && (name == "" || name == e.Name) {
		return e.identity(), nil
	}
	if name != "" && !p.cfg.None() {
		e := p.users[name]
		right, err := b.compare(ctx, e, password)
		switch {
		case err != nil:
			return nil, err
		case !right:
			return nil, ErrUnknown
		}
		return e.identity(), nil
	}
	if !p.open(nc) {
		return nil, ErrAnonymous
	}
	return &Identity{publish: p.cfg.Anonymous.Publish, subscribe: p.cfg.Anonymous.Subscribe}, nil
}

// Stale reports whether i is not to be used further: its user is gone, or has
// another password or other rights.
func (b *Book) Stale(nc net.Conn, i *Identity) bool {
	p := b.page.Load()
	if i.entry != nil {
		return p.users[i.name] != i.entry
	}
	return !p.open(nc) || !reflect.DeepEqual(i.publish, p.cfg.Anonymous.Publish) ||
		!reflect.DeepEqual(i.subscribe, p.cfg.Anonymous.Subscribe)
}

// Rights returns the identity that a user has now, nil if there is none, for what
// outlives its connection. The empty name is that of anonymous clients.
func (b *Book) Rights(name string) *Identity {
	p := b.page.Load()
	if name != "" {
		if e := p.users[name]; e != nil {
			return e.identity()
		}
		return nil
	}
	if p.cfg.From() == "nowhere" {
		return nil
	}
	return &Identity{publish: p.cfg.Anonymous.Publish, subscribe: p.cfg.Anonymous.Subscribe}
}

func (e *entry) identity() *Identity {
	return &Identity{name: e.Name, publish: e.Publish, subscribe: e.Subscribe, entry: e}
}

// compare reports whether the password is that of e, which is nil for a user that is
// not known: that takes as long, so that names cannot be guessed by it.
func (b *Book) compare(ctx context.Context, e *entry, password string) (bool, error) {
	mac := hmac.New(sha256.New, b.key[:])
	mac.Write([]byte(password))
	sum := [sha256.Size]byte(mac.Sum(nil))
	if e != nil {
		if known := e.known.Load(); known != nil && hmac.Equal(known[:], sum[:]) {
			return true, nil
		}
	}
	select {
	case b.turns <- struct{}{}:
		defer func() { <-b.turns }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	hash := b.like()
	if e != nil && e.hash != "" {
		hash = []byte(e.hash)
	}
	right := bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil && len(password) <= MaxPassword && e != nil && e.hash != ""
	if right {
		e.known.Store(&sum)
	}
	return right, nil
}

// like returns a hash that costs what those of users do.
func (b *Book) like() []byte {
	for _, e := range b.page.Load().users {
		if e.hash != "" {
			return []byte(e.hash)
		}
	}
	return b.none
}

// commonName returns that of the certificate that a client has shown and that was
// verified, empty without one.
func commonName(nc net.Conn) string {
	c, ok := nc.(*tls.Conn)
	if !ok {
		return ""
	}
	if chains := c.ConnectionState().VerifiedChains; len(chains) > 0 && len(chains[0]) > 0 {
		return chains[0][0].Subject.CommonName
	}
	return ""
}

// local reports whether a connection comes from this machine.
func local(nc net.Conn) bool {
	switch a := nc.RemoteAddr().(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case nil:
		return false
	default:
		return a.Network() == "unix" || a.Network() == "pipe"
	}
}
