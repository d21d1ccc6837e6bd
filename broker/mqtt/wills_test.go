package mqtt

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
)

// willing gives a client a will for topic "gone", which is its name.
func willing(id string, qos byte, delay uint32) func(*packets.Packet) {
	return func(pk *packets.Packet) {
		pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload, pk.Connect.WillQos = true, "gone", []byte(id), qos
		pk.Connect.WillProperties.WillDelayInterval = delay
	}
}

// A will is stored while its client is connected, and dropped when it was published or the client has said goodbye.
func TestWillIsStored(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("gone", 1)
	for qos := range byte(3) {
		for _, keep := range []func(*packets.Packet){keeps, func(*packets.Packet) {}} {
			p := join(t, addr, v5, "c", keep, willing("c", qos, 0))
			await(t, func() bool { return srv.plane.HasWill("c") })
			p.raw([]byte{packets.Disconnect << 4, 0})
			await(t, func() bool { return !srv.plane.HasWill("c") })
			s.silent()
			srv.away(t, "c")
			p = join(t, addr, v5, "c", keep, willing("c", qos, 0))
			await(t, func() bool { return srv.plane.HasWill("c") })
			p.nc.Close()
			if got := s.message("gone=c"); got.FixedHeader.Qos > 0 {
				s.ack(packets.Puback, got.PacketID)
			}
			await(t, func() bool { return !srv.plane.HasWill("c") })
			srv.away(t, "c")
		}
	}
}

// The will of a client whose node is dead is published by the node that the client comes to, or by any; one that is delayed is not if the
// client was back in time.
func TestWillOfDeadNode(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("gone", 0)
	hub := engine.New(engine.Config{})
	t.Cleanup(hub.Close)
	dead := backplane.New(backplane.Config{Node: "n2", URL: srv.plane.ClientURL()}, slog.New(slog.DiscardHandler))
	t.Cleanup(dead.Close)
	if err := dead.Open(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	kept := func(id string, qos byte, delay uint32) *backplane.Will {
		pk := packets.Packet{}
		willing(id, qos, delay)(&pk)
		w := willOf(&pk, "")
		w.Origin = 1 + uint64(len(id))
		state, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dead.KeepWill(t.Context(), id, "x", w.delay, state); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return srv.plane.HasWill(id) })
		return &backplane.Will{Client: id, Connection: "x", Delay: w.delay, State: state}
	}
	join(t, addr, v5, "delayed", keeps).nc.Close()
	srv.away(t, "delayed")
	kept("back", 0, 0)
	delayed := kept("delayed", 0, 1000)
	twice := kept("twice", 1, 0)
	dead.Close()
	join(t, addr, v5, "back")
	s.message("gone=back")
	await(t, func() bool { return !srv.plane.HasWill("back") })
	for range 2 {
		if !srv.inherit(t.Context(), twice) { // as another node would
			t.Error("it is not taken care of")
		}
	}
	s.message("gone=twice")
	again(t, srv, addr, "delayed")
	if !srv.inherit(t.Context(), delayed) {
		t.Error("it is not taken care of")
	}
	s.silent()
}

// The will of a client whose node is dead is dropped if its user has no right to it any more, and not told of again; one of a version that did
// not store whose it is was allowed when its client connected.
func TestWillOfLostUser(t *testing.T) {
	srv, addr := startStored(t)
	s := join(t, addr, v5, "sub")
	s.subscribe("gone", 0)
	book, err := access.New(access.Config{Users: []access.User{user(t, "ann")}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Guard(book)
	for _, tt := range []struct {
		id    string
		owner *string
		comes bool
	}{{"lost", new("bob"), false}, {"ann's", new("ann"), true}, {"old", nil, true}} {
		w := &will{Topic: []byte("gone"), Payload: []byte(tt.id), QoS: 1, Origin: 1 + uint64(len(tt.id)), Owner: tt.owner}
		state, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if !srv.inherit(t.Context(), &backplane.Will{Client: tt.id, Connection: "x", State: state}) {
			t.Errorf("%s is not taken care of", tt.id)
		}
		if tt.comes {
			s.message("gone=" + tt.id)
		}
	}
	s.silent()
}
