package placement

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// A broker misses the objective: after three windows a part of its publishers goes to the one
// with room, once; and when both are well nothing moves any more.
func TestMigration(t *testing.T) {
	m := NewMigration(1e-3, 3)
	brokers := []Broker{{Capacity: 100, Load: 90}, {Capacity: 100, Load: 60}, {Capacity: 100, Load: 0}}
	rates := []float64{80, 20, 0}
	p99s := []float64{2e-3, .5e-3, 0}
	var moves []Move
	for w := 1; w <= 12; w++ {
		if move, ok := m.Window(mono.Time(w)*10*second, p99s, rates, brokers); ok {
			if w != 3 {
				t.Errorf("window %d: %+v", w, move)
			}
			moves = append(moves, move)
			rates[move.From] -= move.Rate
			rates[move.To] += move.Rate
			brokers[move.From].Load -= move.Rate
			brokers[move.To].Load += move.Rate
			p99s[0] = .9e-3
		}
	}
	if len(moves) != 1 || moves[0].From != 0 || moves[0].To != 1 {
		t.Fatalf("%+v", moves)
	}
	near(t, "rate that moves", moves[0].Rate, 40, 1e-9) // half at most
}

// Chance does not move publishers: every second window misses.
func TestMigrationIsCalm(t *testing.T) {
	m := NewMigration(1e-3, 2)
	for w := range 100 {
		p99 := .5e-3
		if w%3 != 0 {
			p99 = 5e-3
		}
		if move, ok := m.Window(mono.Time(w)*mono.Time(10*time.Second), []float64{p99, 0}, []float64{50, 0}, []Broker{{Capacity: 100, Load: 50}, {Capacity: 100, Load: 0}}); ok {
			t.Fatalf("window %d: %+v", w, move)
		}
	}
}

// An objective that changes back and forth does not keep publishers at a broker that misses both.
func TestMigrationOfAChangingObjective(t *testing.T) {
	m := NewMigration(1e-3, 2)
	for w := 1; w <= 3; w++ {
		m.SetObjective(float64(w) * 1e-3)
		_, moves := m.Window(mono.Time(w)*10*second, []float64{5e-3, 0}, []float64{50, 0}, []Broker{{Capacity: 100, Load: 50}, {Capacity: 100}})
		if moves != (w == 3) {
			t.Errorf("window %d: moves %v", w, moves)
		}
	}
}

// Nobody has room: nothing moves, and nothing is lost.
func TestMigrationWithoutRoom(t *testing.T) {
	m := NewMigration(1e-3, 2)
	for w := range 10 {
		if move, ok := m.Window(mono.Time(w)*10*second, []float64{9e-3, 2e-3}, []float64{50, 50}, []Broker{{Capacity: 100, Load: 50}, {Capacity: 100, Load: 100}}); ok {
			t.Fatalf("%+v", move)
		}
	}
}

// Of each group as many move as of the others.
func TestMovesOf(t *testing.T) {
	topic := Topic{Publishers: groups(300, 30, 2)}
	at := make([]int, 300)
	for i := range at {
		at[i] = i % 2
	}
	moved := topic.MovesOf(Move{From: 1, To: 0, Rate: 100}, at)
	if len(moved) != 50 {
		t.Fatalf("%d publishers of 2/s make up 100/s", len(moved))
	}
	of := map[uint32]int{}
	for _, i := range moved {
		if at[i] != 1 {
			t.Fatal("moved what was not there")
		}
		of[topic.Publishers[i].Group]++
	}
	for g, n := range of {
		if n != 5 {
			t.Errorf("group %d: %d", g, n)
		}
	}
}
