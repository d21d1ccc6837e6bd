package telemetry

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// PathRefusals is the path of an admin listener that explains refusals.
const PathRefusals = "/.spillgate/refusals"

// defaultRefusals is how many refusals a list has that does not say how many it wants, and
// mostRefusals the most that it can have, of all gates together.
const (
	defaultRefusals = 20
	mostRefusals    = 4096
)

// Refused is one refusal and what the gate went by, in JSON. Times are in seconds.
type Refused struct {
	ID      live.RefusalID `json:"refusal"`
	At      time.Time      `json:"time"`
	Gate    string         `json:"gate"`
	Reason  string         `json:"reason"`
	Would   bool           `json:"monitor,omitempty"` // the request ran, as the gate only monitored
	Of      RefusedRequest `json:"request"`
	Times   RefusedTimes   `json:"times"`
	Places  RefusedPlaces  `json:"places"`
	Credits *RefusedClient `json:"credits,omitempty"` // nil: the client knows no credits
}

// RefusedRequest is what the gate believed of the request.
type RefusedRequest struct {
	Workflow string `json:"workflow,omitempty"`
	Class    string `json:"class"`
	Priority int    `json:"priority"`
	Attempt  int    `json:"attempt"`
	Long     bool   `json:"long_kind,omitempty"` // refused as one of too many that outlive the objective
}

// RefusedTimes is what the gate compared: see admission.Because.
type RefusedTimes struct {
	Expected  float64  `json:"expected_wait_seconds"`
	Accepted  float64  `json:"accepted_wait_seconds"`
	Queued    float64  `json:"queued_seconds"`
	Waited    float64  `json:"client_wait_seconds"`
	Need      float64  `json:"needed_seconds"`
	Objective float64  `json:"objective_seconds"`
	Left      *float64 `json:"deadline_in_seconds,omitempty"` // nil: no deadline
}

// RefusedPlaces is how full the gate was.
type RefusedPlaces struct {
	Limit      int `json:"slots_limit"`
	Running    int `json:"running"`
	Waiting    int `json:"waiting"`
	QueueLimit int `json:"queue_limit"`
}

// RefusedClient is the account of the request's client.
type RefusedClient struct {
	Window int  `json:"window"`
	Over   bool `json:"over_window"`
}

// Refusals returns a handler that lists the newest refusals of gates as JSON, the newest
// first: 20, or as many as the parameter n says. With the parameter refusal, the ID in a
// refused answer, it lists that one, or answers 404 if no gate remembers it. gates returns
// the gates by name and is called for each request. The list names workflows, so it belongs
// on a private address.
func Refusals(gates func() map[string]*live.Gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := []Refused{}
		switch text := r.FormValue("refusal"); {
		case text != "":
			id, err := live.ParseRefusalID(text)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			for name, gate := range gates() {
				if e, ok := gate.Explain(id); ok {
					found = append(found, refused(name, &e))
				}
			}
			if len(found) == 0 {
				http.Error(w, "no gate here remembers this refusal: each keeps its newest "+strconv.Itoa(live.MostExplained), http.StatusNotFound)
				return
			}
		default:
			n, err := strconv.Atoi(cmp.Or(r.FormValue("n"), strconv.Itoa(defaultRefusals)))
			if err != nil || n < 1 || n > mostRefusals {
				http.Error(w, "n is the number of refusals, expected 1 to "+strconv.Itoa(mostRefusals), http.StatusBadRequest)
				return
			}
			found = newestOf(gates(), n, found)
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(found)
	})
}

// newestOf appends the newest n refusals of all gates to dst.
func newestOf(gates map[string]*live.Gate, n int, dst []Refused) []Refused {
	for name, gate := range gates {
		for _, e := range gate.Refused(n) {
			dst = append(dst, refused(name, &e))
		}
	}
	slices.SortFunc(dst, func(a, b Refused) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	return dst[:min(n, len(dst))]
}

func refused(gate string, e *live.Explanation) Refused {
	out := Refused{
		ID: e.ID, At: e.At.UTC(), Gate: gate, Reason: e.Reason.String(), Would: e.Would,
		Of: RefusedRequest{Workflow: e.Workflow, Class: e.Class.String(), Priority: int(e.Priority), Attempt: e.Attempt, Long: e.Long},
		Times: RefusedTimes{
			Expected: e.Expected.Seconds(), Accepted: e.Accepted.Seconds(), Queued: e.Queued.Seconds(), Waited: e.Waited.Seconds(),
			Need: e.Need.Seconds(), Objective: e.Objective.Seconds(),
		},
		Places: RefusedPlaces{Limit: e.Limit, Running: e.Running, Waiting: e.Waiting, QueueLimit: e.QueueLimit},
	}
	if e.Left >= 0 {
		left := e.Left.Seconds()
		out.Times.Left = &left
	}
	if e.Credits {
		out.Credits = &RefusedClient{Window: e.Window, Over: e.Over}
	}
	return out
}
