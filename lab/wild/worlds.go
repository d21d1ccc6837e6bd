package wild

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/sim/model"
)

// workers is how many requests the server works on at a time.
const workers = 8

// row is one world of the table.
type row struct {
	name  string
	world model.Config
	// held is how many requests at once need no worker: a semaphore that is told of
	// the workers alone is then not the best.
	held int
	// from and to bound the part of the run that is judged.
	from, to time.Duration
	// change, if above 0, is when the world changes: the second after it is judged
	// apart.
	change time.Duration
}

// base is a world of steady load, in multiples of the capacity.
func base(objective, service time.Duration, shape model.Shape, load float64) model.Config {
	server := model.Server{Cores: workers, Service: model.Service{Mean: service, Shape: shape}}
	return model.Config{
		Objective: objective, Server: server, GiveUp: true,
		Groups:  []model.Group{{Name: "clients", Clients: 20, Load: model.Constant(load * server.Capacity())}},
		Network: model.Network{Delay: 250 * time.Microsecond},
		Length:  13 * time.Second, Bin: 100 * time.Millisecond,
	}
}

// steady judges a world from its third second on.
func steady(name string, w model.Config) row {
	return row{name: name, world: w, from: 3 * time.Second, to: w.Length}
}

// rows returns every world; quick leaves out those between others.
func rows(quick bool) []row {
	var all []row
	shares := []int{10, 20, 33, 40, 50, 60, 67, 75}
	factors := []float64{2, 4, 6, 8, 10, 20}
	deadlines := []float64{1, 1.5, 2, 3, 5, -1}
	if quick {
		shares, factors, deadlines = []int{20, 50, 75}, []float64{4, 8}, []float64{1, 5, -1}
	}
	for _, shape := range []model.Shape{model.Fixed, model.Exponential} {
		for _, percent := range shares {
			const objective = 200 * time.Millisecond
			all = append(all, steady(fmt.Sprintf("%v service of %d %% of the objective, 2x", shape, percent),
				base(objective, objective*time.Duration(percent)/100, shape, 2)))
		}
	}
	for _, d := range deadlines {
		w := base(200*time.Millisecond, 10*time.Millisecond, model.Exponential, 3)
		w.Deadline = time.Duration(d * float64(w.Objective))
		name := fmt.Sprintf("callers wait %v objectives, 3x", d)
		if d < 0 {
			name = "callers wait for ever, 3x"
		}
		all = append(all, steady(name, w))
	}
	for _, load := range []float64{1, 2} {
		all = append(all, steady(fmt.Sprintf("1 %% of the requests take 100 times as long, %vx", load),
			base(100*time.Millisecond, 10*time.Millisecond, model.Rare, load)))
	}
	for _, load := range []float64{1.5, 3} {
		all = append(all, steady(fmt.Sprintf("Pareto 1.5, %vx", load), base(200*time.Millisecond, 10*time.Millisecond, model.Pareto, load)))
	}
	all = append(all, polls(8, 2*time.Second), polls(64, 10*time.Second))
	for _, f := range factors {
		all = append(all, slowdown(f))
	}
	all = append(all, bursts(), stalls(), calm())
	return all
}

// polls are requests that wait without a worker beside half the capacity of short
// ones.
func polls(n int, long time.Duration) row {
	w := base(100*time.Millisecond, 10*time.Millisecond, model.Exponential, 0.5)
	w.GiveUp, w.Deadline = false, -1
	w.Groups = append(w.Groups, model.Group{Name: "pollers", Clients: n, Poll: long, Load: model.Constant(float64(n) / long.Seconds())})
	r := steady(fmt.Sprintf("%d long polls of %v beside 0.5x", n, long), w)
	r.held = n
	return r
}

func slowdown(factor float64) row {
	w := base(200*time.Millisecond, 10*time.Millisecond, model.Exponential, 0.7)
	const at, until = 5 * time.Second, 11 * time.Second
	w.Length = 14 * time.Second
	w.Faults = []model.Fault{{At: at, Speed: 1 / factor}, {At: until, Speed: 1}}
	return row{name: fmt.Sprintf("%v times slower for 6 s, 0.7x", factor), world: w, from: at, to: until, change: at}
}

func bursts() row {
	w := base(100*time.Millisecond, 10*time.Millisecond, model.Exponential, 0.3)
	capacity := w.Server.Capacity()
	var steps []model.Step
	for at := time.Duration(0); at < w.Length; at += time.Second {
		steps = append(steps, model.Step{At: at, Rate: 0.3 * capacity}, model.Step{At: at + 900*time.Millisecond, Rate: 5 * capacity})
	}
	w.Groups[0].Load = model.Load{Steps: steps}
	return steady("0.3x with 100 ms of 5x each second", w)
}

func stalls() row {
	w := base(300*time.Millisecond, 10*time.Millisecond, model.Exponential, 0.8)
	for at := 2 * time.Second; at < w.Length; at += 2 * time.Second {
		w.Faults = append(w.Faults, model.Fault{At: at, Speed: 1e-6}, model.Fault{At: at + 150*time.Millisecond, Speed: 1})
	}
	return steady("all stops for 150 ms every 2 s, 0.8x", w)
}

// calm is no overload at all: nothing is to be refused.
func calm() row {
	return steady("no overload, 0.7x", base(100*time.Millisecond, 10*time.Millisecond, model.Exponential, 0.7))
}
