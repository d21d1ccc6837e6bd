package lint

import (
	"regexp"
	"strings"
)

// House is what is checked: the rows, the exceptions, the forbidden words.
type House struct {
	// Rows lists every directory that may hold Go code. A directory in no row
	// is a violation, so that a new package has to take its place.
	Rows []Row
	// Edges are the imports allowed inside one row, or against the rows.
	Edges []Edge
	// Apart lists subtrees that never import each other, in tests neither.
	Apart [][2]string
	// Words is what no file of the project may mention.
	Words []Forbidden
}

// Row is one layer.
type Row struct {
	Name string
	// Dirs are the row's directories; "x/..." is x with all below it. Inside
	// one such subtree packages import each other freely.
	Dirs []string
	// Imports names the rows this one may import.
	Imports []string
	// Pure: no clock, goroutine, lock, log, I/O, chance or state.
	Pure bool
	// ThirdParty: libraries outside the standard one are allowed.
	ThirdParty bool
}

// Edge is an import that the rows alone would not allow. From and To are
// entries of Row.Dirs or directories.
type Edge struct{ From, To, Why string }

// Forbidden is a pattern that no line of any text file may match.
type Forbidden struct {
	Pattern *regexp.Regexp
	Why     string
}

// Spillgate is the house of this module. A new package takes its place in
// Rows; an import that a row does not allow needs a line in Edges, with a
// reason that a reviewer accepts.
func Spillgate() House {
	words := []string{"words"}
	parts := append(words[:1:1], "parts")
	policies := append(parts[:2:2], "policies")
	node := append(policies[:3:3], "node")
	drivers := append(node[:4:4], "drivers")
	edges := append(drivers[:5:5], "edges", "tools")
	return House{
		Rows: []Row{
			{Name: "words", Pure: true, Dirs: []string{"internal/mono", "internal/work"}},
			{Name: "parts", Pure: true, Imports: words, Dirs: []string{"internal/signal", "internal/bucket", "internal/wire", "internal/progress", "internal/urlpath", "internal/mistake",
				"internal/world", "internal/procstat"}},
			{Name: "policies", Pure: true, Imports: parts, Dirs: []string{"internal/credit", "internal/slots", "internal/admission",
				"internal/rates", "internal/schedule", "internal/share", "internal/culprit", "internal/readmit", "internal/placement", "internal/baseline/..."}},
			{Name: "node", Pure: true, Imports: policies, Dirs: []string{"internal/node"}},
			{Name: "drivers", Imports: node, Dirs: []string{"internal/sim/...", "internal/live", "internal/culprit/audit", "internal/taskfile"}},
			// What users import or run; the root package is among them.
			{Name: "edges", Imports: drivers, ThirdParty: true, Dirs: []string{".", "grpcgate", "httpgate", "proxy", "telemetry",
				"classify", "config", "tracer", "fastrpc", "guard/...", "broker/...", "internal/spanevent", "internal/http1"}},
			{Name: "programs", Imports: edges, ThirdParty: true, Dirs: []string{"cmd/...", "lab/...",
				"internal/harness/...", "internal/demo/..."}},
			// Examples see what users see.
			{Name: "examples", Imports: []string{"edges"}, ThirdParty: true, Dirs: []string{"examples/..."}},

			// Tools draw, print, spell and read files, and know nothing of the house.
			{Name: "tools", ThirdParty: true, Dirs: []string{"internal/plot", "internal/table", "internal/plainyaml", "internal/spelling", "internal/reread"}},
			// Checks exist for tests alone; nothing else imports them.
			{Name: "checks", ThirdParty: true, Imports: append(edges[:7:7], "programs", "examples"), Dirs: []string{"internal/lint",
				"internal/await", "internal/catalogue", "internal/leaks", "internal/needs", "internal/parity", "internal/seeded", "internal/tracers"}},
		},
		Edges: []Edge{
			{"internal/work", "internal/mono", "a request carries the instants at which it came and must be done"},
			{"internal/progress", "internal/signal", "what a workflow takes is a mean of what its requests took"},
			{"internal/baseline/...", "internal/admission", "a baseline stands behind the same interface as the gate it is compared with"},
			{"internal/baseline/...", "internal/credit", "a baseline with credits distributes them as ours are, so that only the pool differs"},
			{"internal/admission", "internal/credit", "the gate's decision grants the windows that ride on its replies"},
			{"internal/admission", "internal/slots", "the gate's decision includes whether a worker slot is free"},
			{"internal/admission", "internal/schedule", "the gate's queue is in the scheduler's order"},
			{"internal/admission", "internal/rates", "the gate's decision includes whether a workflow is over its rate"},
			{"internal/live", "internal/taskfile", "a gate reads what its handlers hold from the file in which their tracer records it"},
			{"internal/live", "internal/culprit/audit", "what a gate decides about culprits can be written down"},
			{"proxy", "telemetry", "an edge counts and times what it decides"},
			{"proxy", "httpgate", "the proxy is the HTTP gate in front of somebody else's server"},
			{"proxy", "classify", "the proxy's rules say what a request is"},
			{"proxy", "tracer", "rules say what requests hold in a server that cannot say so itself"},
			{"proxy", "internal/http1", "the proxy's upstreams of HTTP/1 are spoken with by one goroutine a request"},
			{"classify", "guard/...", "a rule may look at which keys a request to etcd covers"},
			{"config", "classify", "the file describes the rules"},
			{"config", "proxy", "the file describes a proxy, and the proxy says what is wrong with the description"},
			{"config", "guard/...", "the file describes guards, and they say what is wrong with the description"},
			{"config", "broker/...", "the file describes a broker, and it says what is wrong with the description"},
			{"fastrpc", ".", "a service configures it with the types of the root package"},
			{"fastrpc", "broker/...", "a call's delay counts from the arrival that the kernel stamps, as a message's does (broker/stamp)"},
			{"broker/...", "telemetry", "an edge counts what it decides"},
			{"guard/...", "telemetry", "an edge counts what it decides"},
			{"guard/...", "httpgate", "kinds of requests have one name, in a gate, a proxy and a guard"},
			{"guard/...", "grpcgate", "an embedded server is guarded in its interceptors"},
			{"guard/...", "tracer", "a guard inside of a server records what its requests hold"},
			{"grpcgate", "internal/spanevent", "a span tells what the gate did to its request"},
			{"httpgate", "internal/spanevent", "a span tells what the gate did to its request"},
			{"proxy", "internal/reread", "certificates are taken while the proxy runs"},
			{"broker/...", "internal/reread", "certificates and passwords are taken while the broker runs"},
			{"config", "internal/plainyaml", "the file is YAML, and its mistakes are reported as those of every file"},
			{"internal/leaks", "internal/await", "goroutines have as long to end as a test waits for anything"},
			{"internal/tracers", "internal/needs", "a test that drives a tracer of another language needs its compiler"},
			{"internal/plainyaml", "internal/spelling", "a file's mistake about a name says which one was probably meant"},
			{"internal/plot", "internal/table", "a report shows plots and tables side by side"},
			{"cmd/...", "lab/...", "the command line runs the experiments"},
			{"cmd/...", "internal/demo/...", "the command line plays the demo"},
			{"internal/demo/...", "internal/harness/...", "the demo drives real processes with the harness's generator"},
			{"lab/...", "internal/harness/...", "live experiments use the same generator as the demo"},
		},
		Apart: [][2]string{{"internal/sim/...", "internal/live"}},
		Words: []Forbidden{
			{regexp.MustCompile("(^|[\\s\"'`(=:,])/(home|root|work|tmp|Users)/"), "an absolute path of one machine; use a relative path or a temporary directory"},
			{regexp.MustCompile(`(?i)\bsub-?agents?\b`), "the project speaks of the software alone"},
			{regexp.MustCompile(`(^|[^\w\s]\s*)Generated (by|with)\b`), "a line about how a file came to be; say what it is instead"},
			{regexp.MustCompile(`(?i)co-authored-[b]y:`), "history belongs to version control"},
			{regexp.MustCompile(`(proxy|sum)[.]golang[.]org|registry[.]npmjs[.]org|files[.]pythonhosted`), "a package registry's host; the tools know where packages come from"},
		},
	}
}

// place returns the row of a directory and the entry of Row.Dirs that covers
// it, or nil if the house has no place for it.
func (h *House) place(dir string) (row *Row, entry string) {
	for i := range h.Rows {
		for _, entry := range h.Rows[i].Dirs {
			if covers(entry, dir) {
				return &h.Rows[i], entry
			}
		}
	}
	return nil, ""
}

// edge reports whether a named edge allows from to import to.
func (h *House) edge(from, to string) bool {
	for _, e := range h.Edges {
		if covers(e.From, from) && covers(e.To, to) {
			return true
		}
	}
	return false
}

// covers reports whether entry, a directory or "x/...", holds dir.
func covers(entry, dir string) bool {
	tree, ok := strings.CutSuffix(entry, "/...")
	return dir == tree || ok && strings.HasPrefix(dir, tree+"/")
}
