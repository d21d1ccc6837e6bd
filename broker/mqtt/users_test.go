package mqtt

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/access"
)

func as(name, password string) func(*packets.Packet) {
	return func(pk *packets.Packet) {
		pk.Connect.UsernameFlag, pk.Connect.Username = name != "", []byte(name)
		pk.Connect.PasswordFlag, pk.Connect.Password = password != "", []byte(password)
	}
}

func stays(pk *packets.Packet) {
	pk.Connect.Clean = false
	pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 60, true
}

func guarded(t *testing.T, users ...access.User) (*Server, string, *access.Book) {
	t.Helper()
	book, err := access.New(access.Config{Users: users})
	if err != nil {
		t.Fatal(err)
	}
	srv, addr := start(t, Limits{})
	srv.Guard(book)
	return srv, addr, book
}

func user(t *testing.T, name string) access.User {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return access.User{Name: name, Password: string(h)}
}

func TestLogin(t *testing.T) {
	ann := user(t, "ann")
	ann.Publish = []string{"ann/#"}
	_, addr, _ := guarded(t, ann)
	will := func(pk *packets.Packet) {
		pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload = true, "bob", []byte("x")
	}
	for _, tt := range []struct {
		about    string
		change   []func(*packets.Packet)
		old, new byte
	}{
		{"right", []func(*packets.Packet){as("ann", "ann")}, 0, 0},
		{"wrong password", []func(*packets.Packet){as("ann", "bob")}, 4, 0x86},
		{"unknown", []func(*packets.Packet){as("bob", "bob")}, 4, 0x86},
		{"anonymous", nil, 5, 0x87},
		{"a will that is not allowed", []func(*packets.Packet){as("ann", "ann"), will}, 5, 0x87},
	} {
		for version, want := range map[byte]byte{v311: tt.old, v5: tt.new} {
			p := dial(t, addr, version)
			p.connect("c", tt.change...)
			if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode != want {
				t.Errorf("%s, version %d: answered %+v, want code %#x", tt.about, version, got, want)
			}
			p.nc.Close()
		}
	}
}

// far knows that everybody belongs to another node.
type far struct{}

func (far) Publishes(string, string, Says)                     {}
func (far) Topics() uint64                                     { return 0 }
func (far) Gone(string)                                        {}
func (far) Where(context.Context, string, string, Says) string { return "there:1883" }

// counted is far, and counts who was asked for.
type counted struct {
	far
	asked *atomic.Int64
}

func (c counted) Where(ctx context.Context, client, topic string, says Says) string {
	c.asked.Add(1)
	return c.far.Where(ctx, client, topic, says)
}

// Nobody has another user's client placed: whoever takes its name is refused before it is asked for.
func TestPlaceIsItsUsers(t *testing.T) {
	ann, bob := user(t, "ann"), user(t, "bob")
	ann.Publish, bob.Publish = []string{"#"}, []string{"#"}
	srv, addr, _ := guarded(t, ann, bob)
	var asked atomic.Int64
	srv.Place(counted{asked: &asked})
	follows := func(pk *packets.Packet) {
		pk.Properties.User = []packets.UserProperty{{Key: PropertyRedirect, Val: "1"}, {Key: PropertyTopic, Val: "t"}}
	}
	for _, tt := range []struct {
		who   string
		how   func(*packets.Packet)
		want  byte
		asked int64
	}{{"ann", stays, 0, 0}, {"bob", follows, packets.ErrNotAuthorized.Code, 0}, {"ann", follows, packets.ErrUseAnotherServer.Code, 1}} {
		p := dial(t, addr, v5)
		p.connect("c", as(tt.who, tt.who), tt.how)
		if got := p.read(); got.ReasonCode != tt.want || asked.Load() != tt.asked {
			t.Errorf("%s: answered %+v, %d asked for; want code %#x and %d", tt.who, got, asked.Load(), tt.want, tt.asked)
		}
		p.nc.Close()
	}
}

// A client is sent elsewhere as it connects where it may publish to the topic, and takes the packet that says so.
func TestSentElsewhere(t *testing.T) {
	ann := user(t, "ann")
	ann.Publish = []string{"ann/#"}
	srv, addr, _ := guarded(t, ann)
	srv.Place(far{})
	for _, tt := range []struct {
		topic string
		most  uint32
		want  byte
	}{{"ann/a", 0, packets.ErrUseAnotherServer.Code}, {"ann/a", minReference, packets.ErrUseAnotherServer.Code}, {"ann/a", minReference - 1, 0}, {"bob/b", 0, 0}} {
		p := dial(t, addr, v5)
		p.connect("c", as("ann", "ann"), func(pk *packets.Packet) {
			pk.Properties.User = []packets.UserProperty{{Key: PropertyRedirect, Val: "1"}, {Key: PropertyTopic, Val: tt.topic}}
			pk.Properties.MaximumPacketSize = tt.most
		})
		if got := p.read(); got.FixedHeader.Type != packets.Connack || got.ReasonCode != tt.want {
			t.Errorf("%s, packets of at most %d bytes: answered %+v, want code %#x", tt.topic, tt.most, got, tt.want)
		}
		p.nc.Close()
	}
}

func TestRights(t *testing.T) {
	ann, all := user(t, "ann"), user(t, "all")
	ann.Publish, ann.Subscribe = []string{"ann/#"}, []string{"news/+"}
	srv, addr, book := guarded(t, ann, all)
	sub := join(t, addr, v5, "sub", as("all", "all"))
	sub.subscribe("#", 1)
	p := join(t, addr, v5, "c", as("ann", "ann"), stays)
	for i, tt := range []struct {
		topic string
		qos   byte
		want  byte
	}{{"ann/1", 1, 0}, {"bob/1", 1, 0x87}, {"bob/1", 2, 0x87}, {"bob/1", 0, 0}, {"ann/2", 1, 0}} {
		p.publish(tt.topic, "x", tt.qos, uint16(i+1))
		if tt.qos == 0 {
			continue
		}
		if got := p.read(); got.ReasonCode != tt.want || got.PacketID != uint16(i+1) {
			t.Errorf("%s, QoS %d: answered %+v, want code %#x", tt.topic, tt.qos, got, tt.want)
		}
	}
	for _, want := range []string{"ann/1", "ann/2"} {
		if got := sub.read(); got.TopicName != want {
			t.Errorf("the subscriber got %+v, want %s", got, want)
		}
	}
	if n := srv.Stats().Refused; n != 3 {
		t.Errorf("%d messages were refused, want 3", n)
	}
	for filter, want := range map[string]byte{"news/1": 1, "news/+": 1, "news/#": 0x87, "#": 0x87, "$share/g/#": 0x87, "$share/g/news/2": 1} {
		if got := p.subscribe(filter, 1); got != want {
			t.Errorf("SUBSCRIBE %s: code %#x, want %#x", filter, got, want)
		}
	}
	other := dial(t, addr, v5)
	other.connect("c", as("all", "all"))
	if got := other.read(); got.ReasonCode != 0x87 {
		t.Errorf("a session of another user: %+v", got)
	}

	// Other rights: the connection ends, the session stays, without what it may not have.
	ann.Subscribe = []string{"news/1"}
	if err := book.Set(access.Config{Users: []access.User{ann, all}}); err != nil {
		t.Fatal(err)
	}
	srv.Review()
	if got := p.read(); got.FixedHeader.Type != packets.Disconnect || got.ReasonCode != 0x98 {
		t.Errorf("after a change of rights: %+v", got)
	}
	if n := srv.hub.Counts().Subscriptions; n != 2 {
		t.Errorf("%d subscriptions are left, want 2", n)
	}
	p = dial(t, addr, v5)
	p.connect("c", as("ann", "ann"), stays)
	if got := p.read(); got.ReasonCode != 0 || !got.SessionPresent {
		t.Errorf("back again: %+v", got)
	}
	p.nc.Close()
	await(t, func() bool { return srv.Stats().Connections == 1 })
	if err := book.Set(access.Config{Users: []access.User{all}}); err != nil {
		t.Fatal(err)
	}
	srv.Review()
	if s := srv.Stats(); s.Sessions != 1 || srv.hub.Counts().Subscriptions != 1 {
		t.Errorf("a user that is gone leaves %+v", s)
	}
}
