package plot

import (
	"math"
	"math/rand/v2"

	"github.com/spillgate/spillgate/internal/table"
)

// The samples are charts such as the experiments draw, made from formulas.

func goodputChart() *Chart {
	c := &Chart{
		Title:  "Goodput under overload",
		X:      Axis{Label: "offered load", Unit: "× capacity", Log: true},
		Y:      Axis{Label: "goodput", Unit: "share of capacity"},
		Levels: []Level{{Name: "capacity", At: 1}, {Name: "knee", At: 1.05, Vertical: true}},
	}
	for _, s := range []struct {
		name  string
		above func(load float64) float64
	}{
		{"credits", func(float64) float64 { return 0.975 }},
		{"semaphore", func(load float64) float64 { return 0.96 - 0.01*load }},
		{"DAGOR", func(load float64) float64 { return 0.9 - 0.04*load }},
		{"SEDA", func(load float64) float64 { return 0.93 / math.Sqrt(load) }},
		{"none", func(load float64) float64 { return math.NaN() }},
	} {
		line := Series{Name: s.name}
		for _, load := range []float64{0.1, 0.2, 0.5, 0.8, 1, 1.5, 2, 3, 5, 10} {
			line.X = append(line.X, load)
			if load < 1 {
				line.Y = append(line.Y, load)
			} else {
				line.Y = append(line.Y, s.above(load))
			}
		}
		c.Series = append(c.Series, line)
	}
	return c
}

func timeChart() *Chart {
	c := &Chart{
		Title:  "A step from 0.7 to 2.5 times the capacity",
		X:      Axis{Label: "time", Unit: "s"},
		Y:      Axis{Label: "requests per second"},
		Series: []Series{{Name: "goodput"}, {Name: "offered"}, {Name: "shed"}},
		Spans:  []Span{{Name: "2.5×", From: 20, To: 40}},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		t, load := float64(i)/10, 35e3
		if t >= 20 && t < 40 {
			load = 125e3
		}
		load *= 1 + 0.03*r.NormFloat64()
		served := min(load, 49e3*(1-0.3*math.Exp(-math.Abs(t-20))))
		for k, v := range []float64{served, load, load - served} {
			c.Series[k].X = append(c.Series[k].X, t)
			c.Series[k].Y = append(c.Series[k].Y, v)
		}
	}
	return c
}

func cdfChart() *Chart {
	c := &Chart{
		Title:  "Response time",
		X:      Axis{Label: "response time", Unit: "µs", Log: true},
		Y:      Axis{Label: "share of requests", Max: 1},
		Levels: []Level{{Name: "SLO 200 µs", At: 200, Vertical: true}},
	}
	for i, name := range []string{"credits", "credits without speculation", "no control"} {
		line := Series{Name: name}
		for share := 0.001; share < 1; share += 0.001 { // of a log-normal distribution
			line.X = append(line.X, 20*float64(1+3*i*i)*math.Exp(0.5*math.Sqrt2*math.Erfinv(2*share-1)))
			line.Y = append(line.Y, share)
		}
		c.Series = append(c.Series, line)
	}
	return c
}

func barChart() *Chart {
	return &Chart{
		Title:      "Time to recover from a spike",
		Y:          Axis{Label: "time", Unit: "ms", Log: true},
		Categories: []string{"credits", "DAGOR", "SEDA", "CoDel"},
		Series:     []Series{{Name: "measured", Y: []float64{14, 430, 1720, math.NaN()}}, {Name: "published", Y: []float64{20, 500, 1580}}},
		Levels:     []Level{{Name: "bar 20 ms", At: 20}},
	}
}

func sampleTable() *table.Table {
	t := &table.Table{Title: "Spike", Columns: []table.Column{{Name: "policy"}, {Name: "recovered", Unit: "ms"}, {Name: "verdict"}}, Note: "Published: OSDI 2020."}
	t.Add("credits", 14.0, table.Cell{Value: "ok", Mark: table.Good})
	t.Add("<script>alert(1)</script>", 430.0, table.Cell{Value: "falls short", Mark: table.Bad})
	return t
}
