package backplane

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/broker/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// covers is how NATS matches a subject.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// What a filter covers, its subjects cover, and nothing else.
func TestSubjects(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	levels := []string{"a", "b", "", "a b", "x.y", "*", ">", "%", "ü", "a%20b", "$", "\t"}
	some := func(wild bool) string {
		var all []string
		for range 1 + rng.IntN(4) {
			all = append(all, levels[rng.IntN(len(levels))])
			if wild && rng.IntN(3) == 0 {
				all[len(all)-1] = "+"
			}
		}
		if wild && rng.IntN(3) == 0 {
			all = append(all, "#")
		}
		if !wild && rng.IntN(5) == 0 {
			all[0] = "$SYS"
		}
		return strings.Join(all, "/")
	}
	for range 20_000 {
		filter, topic := some(rng.IntN(4) > 0), some(false)
		if engine.CheckFilter(filter) != nil || engine.CheckTopic(topic) != nil {
			continue
		}
		subject := subjectOf("p.", topic)
		for _, token := range strings.Split(subject, ".") {
			if token == "" || strings.ContainsAny(token, " *>\t") {
				t.Fatalf("topic %q has the subject %q", topic, subject)
			}
		}
		n := 0
		for _, s := range subjectsOf("p.", filter) {
			if covers(s, subject) {
				n++
			}
		}
		if want := engine.Matches(filter, topic); (n > 0) != want || n > 1 {
			t.Fatalf("filter %q has %q, %d of which cover topic %q at %q; Matches says %v", filter, subjectsOf("p.", filter), n, topic, subject, want)
		}
	}
}

// Numbers are let pass once, in whatever order they come within the window.
func TestWindows(t *testing.T) {
	var w windows
	rng := rand.New(rand.NewPCG(3, 4))
	passed := map[number]int{}
	var late []number
	for n := range uint64(5000) {
		late = append(late, number{n % 3, n}, number{n % 3, n})
		for len(late) > 100 || n == 4999 && len(late) > 0 {
			i := rng.IntN(len(late))
			if w.first(late[i]) {
				passed[late[i]]++
			}
			late = append(late[:i], late[i+1:]...)
		}
	}
	for n := range uint64(5000) {
		if passed[number{n % 3, n}] != 1 {
			t.Fatalf("number %d passed %d times", n, passed[number{n % 3, n}])
		}
	}
	if !w.first(number{9, 1}) || w.first(number{9, 1}) || !w.first(number{9, 1 << 40}) || w.first(number{9, 2}) {
		t.Error("a jump is not taken for one")
	}
}

func TestConfig(t *testing.T) {
	var fields []string
	wrong := func(field, _, _ string) { fields = append(fields, field) }
	Config{}.Check(wrong)
	Config{Node: "n1", Data: "d"}.Check(wrong)
	Config{Node: "n1", Data: "d", Cluster: "h1:1", Routes: []string{"h1:1", "h2:1", "h3:1"}}.Check(wrong)
	if len(fields) > 0 {
		t.Errorf("mistakes where none are: %v", fields)
	}
	Config{Node: "a b", URL: "nats://h:4222", Listen: "x", Routes: []string{"h", "h:1"}, Replicas: 2, MaxBytes: 1, MaxAge: time.Second, Patience: -1}.Check(wrong)
	if got, want := strings.Join(fields, " "), "node listen listen routes[0] cluster replicas max_bytes max_age patience"; got != want {
		t.Errorf("mistakes in %s, want %s", got, want)
	}
	if c := (Config{Data: "d", Cluster: "h1:1", Routes: []string{"h1:1", "h2:1", "h3:1"}}).WithDefaults(); c.Replicas != 3 {
		t.Errorf("three nodes have %d replicas", c.Replicas)
	}
	if c := (Config{Data: "d", Cluster: "h1:1", Routes: []string{"h2:1"}}).WithDefaults(); c.Replicas != 1 {
		t.Errorf("two nodes have %d replicas", c.Replicas)
	}
}

func FuzzDecode(f *testing.F) {
	whole := packet{qos: 2, retain: true, left: time.Minute, sender: 7, number: number{1 << 63, 3}, topic: []byte("a/b"), properties: []byte{1, 0}, payload: []byte("x")}
	f.Add(whole.append(nil))
	f.Add([]byte{format, 0})
	f.Add([]byte{format, 7, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(p.append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.payload, p.payload) || !bytes.Equal(again.topic, p.topic) || !bytes.Equal(again.properties, p.properties) {
			t.Errorf("%s became %s", fmt.Sprint(p), fmt.Sprint(again))
		}
		p.topic, p.properties, p.payload, again.topic, again.properties, again.payload = nil, nil, nil, nil, nil, nil
		if fmt.Sprint(p) != fmt.Sprint(again) {
			t.Errorf("%v became %v", p, again)
		}
	})
}
