package arena

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/table"
)

// earlier is what an independent measurement on a like machine found, goodput ÷
// capacity by station, load and controller. Its FIFO with delay AQM is nearest to
// codel here; its generator, deadlines and service times were other ones, and its
// servers had GOMAXPROCS=1.
var earlier = map[string]map[string]string{
	"fast sleep": {
		"1 none": "0", "2 none": "0", "4 none": "0",
		"1 go-zero": "0", "2 go-zero": "0", "4 go-zero": "0",
		"1 aegis": "0", "2 aegis": "0", "4 aegis": "0",
		"1 semaphore": ".89", "2 semaphore": ".96", "4 semaphore": ".93",
		"1 codel": ".88", "2 codel": ".91", "4 codel": ".92",
		"1 failsafe": ".62", "2 failsafe": ".20", "4 failsafe": ".14",
	},
	"fast spin": {
		"1 none": "0", "2 none": "0",
		"1 semaphore": "0", "2 semaphore": "0",
		"1 go-zero": "0", "2 go-zero": "0",
		"1 aegis": "0", "2 aegis": "0",
		"1 failsafe": "0", "2 failsafe": "0",
	},
}

// Tables shows the outcome, one table per station.
func (o *Outcome) Tables() []*table.Table {
	var tables []*table.Table
	for _, row := range o.Rows {
		known := earlier[row.Station]
		title := fmt.Sprintf("%s station, capacity %.0f/s", row.Station, o.Capacity[row.Station])
		if len(tables) == 0 || tables[len(tables)-1].Title != title {
			columns := []table.Column{
				{Name: "load"}, {Name: "controller"}, {Name: "goodput", Unit: "of capacity", Format: "%.2f"}, {Name: "least to most"},
				{Name: "p99 served"}, {Name: "refused knows p50"}, {Name: "p99"}, {Name: "settled"}, {Name: "lag p99"}, {Name: "valid"},
			}
			if known != nil {
				columns = append(columns, table.Column{Name: "earlier"})
			}
			tables = append(tables, &table.Table{
				Title:   title,
				Columns: columns,
				Note: "Medians of interleaved repeats, after the first quarter of each run. Deadline = objective. " +
					"Server: one core, " + fmt.Sprintf("GOMAXPROCS=%d, GOGC=", procs(row.Station)) + serverGOGC + "; generator: another core, GOGC=" + generatorGOGC + ". " +
					"valid: repeats whose generator was on time (lag p99 at most a tenth of the objective) and whose server had its processor to itself; others count only if there is no such.",
			})
		}
		settled := "-"
		switch {
		case row.Load != Spike:
		case row.Settled < 0:
			settled = "never"
		default:
			settled = row.Settled.String()
		}
		cells := []any{loadName(row.Load), row.Controller, row.Share,
			fmt.Sprintf("%.2f–%.2f", row.Least, row.Most),
			round(row.P99), round(row.Refusal), round(row.Refusal99), settled, round(row.Lag),
			fmt.Sprintf("%d/%d", row.Valid, row.Repeats)}
		if known != nil {
			cells = append(cells, cmp.Or(known[fmt.Sprintf("%g %s", row.Load, row.Controller)], "-"))
		}
		tables[len(tables)-1].Add(cells...)
	}
	return tables
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// procs is the GOMAXPROCS of the server of a setting that is known by name.
func procs(station string) int {
	for _, s := range Settings() {
		if s.Name == station {
			return s.procs()
		}
	}
	return 1
}
