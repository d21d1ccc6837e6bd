package share

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/mqtt"
	"github.com/spillgate/spillgate/broker/place"
)

// asks returns who is asked for, and takes them.
func asks(n *Node) (all []string) {
	for {
		select {
		case a := <-n.asking:
			all = append(all, fmt.Sprintf("%s in %s", a.join.Publisher, a.topic))
		default:
			return all
		}
	}
}

// A client is asked for once while that is under way, again in the next step if it could not be placed, and not if it never can be.
func TestAsksAgain(t *testing.T) {
	hub := &fakeHub{mu: &sync.Mutex{}, shares: map[string]engine.Share{}}
	n := NewNode(Config{Node: "n0", Holders: func(string, []string) {}, Move: func(string, string) bool { return false }}, hub, nil, nil, slog.New(slog.DiscardHandler))
	state := func(publishers map[string]place.Publisher) *place.State {
		return &place.State{Nodes: map[string]place.Node{"n0": {Capacity: 1}}, Topics: map[string]*place.Topic{"t": {Limits: place.Limits{Rate: 1, Burst: 1}, Publishers: publishers}}}
	}
	expect := func(when string, want ...string) {
		t.Helper()
		n.askAgain()
		if got := asks(n); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: asked for %v, want %v", when, got, want)
		}
	}
	n.follow(state(nil))
	n.Publishes("c", "t", says(""))
	n.Publishes("c", "other", says(""))
	expect("a client publishes", "c in t")
	n.Publishes("c", "t", says(""))
	expect("again, while it is asked for")
	asked := ask{"t", place.Join{Publisher: "c"}}
	n.answered(asked, errors.New("no majority"))
	expect("nobody answered", "c in t")
	expect("a step later")
	n.follow(state(map[string]place.Publisher{"c": {Node: "n0"}}))
	expect("it has a place")
	n.follow(state(nil))
	expect("its place was taken away", "c in t")
	n.answered(asked, nil)
	n.follow(state(nil))
	n.follow(state(nil))
	expect("it has got a place, which was taken away before this node saw it", "c in t")
	n.answered(asked, nil)
	n.follow(state(map[string]place.Publisher{"c": {Node: "n0", Group: "g", Objective: 1, Rate: 2}}))
	expect("it has a place, and says nothing against what is known of it")
	n.Publishes("e", "t", says("h"))
	expect("another one has no place", "e in t")
	n.follow(state(map[string]place.Publisher{"c": {Node: "n0"}, "e": {Node: "n0", Group: "h"}}))
	n.follow(state(map[string]place.Publisher{"c": {Node: "n0"}, "e": {Node: "n0", Group: "g"}}))
	expect("it is known in another group than it says", "e in t")
	n.Gone("e")
	n.follow(state(nil))
	expect("its place was taken away again", "c in t")
	n.answered(asked, &place.Mistake{})
	expect("it can never be placed")
	n.follow(&place.State{})
	n.follow(state(nil))
	expect("the topic was removed and is there again", "c in t")
	n.answered(asked, errors.New("no majority"))
	n.Gone("c")
	expect("it has left")

	for i := range maxAsks + 10 {
		n.Publishes(fmt.Sprint("d", i), "t", says(""))
	}
	if got := len(asks(n)); got != maxAsks {
		t.Errorf("%d are asked for at once, want %d", got, maxAsks)
	}
	n.askAgain()
	if got := len(asks(n)); got != 10 {
		t.Errorf("in the next step %d are asked for, want 10", got)
	}
}

// says is a client that fires with a group.
func says(group string) mqtt.Says { return mqtt.Says{Group: group} }
