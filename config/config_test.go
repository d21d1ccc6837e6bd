package config

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/proxy"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

const example = "../examples/http/spillgate.yaml"

// The example is valid, and all it shows as a default is the default.
func TestExample(t *testing.T) {
	f, err := Load(example)
	if err != nil {
		t.Fatal(err)
	}
	if f.Proxy.Objective != 100*time.Millisecond || f.Proxy.Upstreams[0].URL != "http://127.0.0.1:9000" || f.Proxy.Mode != live.Enforce {
		t.Errorf("read %+v", f.Proxy)
	}
	short, err := Decode("short", []byte("slo: 100ms\nlisten: 127.0.0.1:8080\nadmin: 127.0.0.1:9090\nupstreams: http://127.0.0.1:9000\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := f.Proxy.WithDefaults(), short.Proxy.WithDefaults(); !reflect.DeepEqual(a, b) {
		t.Errorf("the example is\n%+v\nand its required keys alone are\n%+v", a, b)
	}
}

// What the example shows in comments is valid as well.
func TestExampleInComments(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	inside := false
	for line := range strings.SplitSeq(string(text), "\n") {
		switch {
		case line == "workflows: {}", line == "rules: []", line == "egress: []", line == "groups: []":
			continue
		case line == "# workflows:", line == "# rules:", line == "# egress:", line == "# groups:", line == "# access_log:":
			inside = true
		case !strings.HasPrefix(line, "#"):
			inside = false
		}
		if inside {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
		}
		out = append(out, line)
	}
	// In share only lines that begin with a key, or go on with one, are no prose.
	for i, line := range out {
		if rest, ok := strings.CutPrefix(line, "  # "); ok && shareKey.MatchString(rest) {
			out[i] = "  " + rest
		}
	}
	all := strings.NewReplacer("fair: false", "fair: true", "enabled: false", "enabled: true", "order: off", "order: weighted", "# slots: 8", "slots: 8").Replace(strings.Join(out, "\n"))
	f, err := Decode("example", []byte(all))
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, all)
	}
	if p := f.Proxy; len(p.Workflows) != 2 || len(p.Rules) != 6 || p.Rules[3].Set.Objective != 2*time.Second || p.Workflows["checkout"].Guarantee != 50 {
		t.Errorf("read %+v, %+v", p.Workflows, p.Rules)
	}
	p := f.Proxy
	if s := p.Share; p.Slots != (proxy.Slots{Min: 8, Max: 8}) || s.Order != proxy.FixedShare || s.Weight != 0.65 || s.Service != "orders" || s.Ratio != 0.5 ||
		len(s.Classes) != 1 || s.Classes[0].Class != work.Interactive || len(s.Patience) != 2 || s.Patience[1] != (share.Branch{Weight: 0.3, Rate: 0.5}) || len(s.DefaultPatience) != 1 {
		t.Errorf("read %+v, %+v", p.Slots, s)
	}
	if g := p.Groups; len(g) != 1 || g[0].Objective != 2*time.Second || len(g[0].Upstreams) != 2 || len(g[0].Paths) != 1 || len(g[0].Hosts) != 1 {
		t.Errorf("read %+v", g)
	}
	if p.Access != (proxy.Access{Path: "access.jsonl", Served: 1, Refused: 1, Failed: 1}) {
		t.Errorf("read %+v", p.Access)
	}
	if e := p.Egress; len(e) != 1 || e[0] != (proxy.Egress{Address: "127.0.0.1:15001", URL: "http://10.0.0.2:8080"}) {
		t.Errorf("read %+v", e)
	}
}

// shareKey is what a line of the example's share begins with that is commented out.
var shareKey = regexp.MustCompile(`^(weight|service|ratio|harm|loss|max_weight|period|patience|default_patience|classes):|^  (- caller|  callee|  method|  class):`)

// The example names every key, in use or commented out.
func TestExampleNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	// The decoder names its keys when it meets one it does not know.
	_, err = Decode("x", []byte("?: 1\nhealth: {?: 1, check: {?: 1}}\ngroups: [{?: 1}]\naccess_log: {?: 1}\nworkflows: {a: {?: 1}}\nrules: [{?: 1, match: {?: 1}, set: {?: 1}}]\nschedule: {?: 1}\nrates: {?: 1}\nslots: {?: 1}\nshare: {?: 1, classes: [{?: 1}], patience: [{?: 1}]}\negress: [{?: 1}]\ndrain: {?: 1}\nlimits: {?: 1}\nlog: {?: 1}\nlisten: [{?: 1}]\nupstreams: [{?: 1}]\n"))
	keys := 0
	for _, m := range mistakes(t, err) {
		if m.Value != "unknown key" {
			continue
		}
		for key := range strings.SplitSeq(m.Want, ", ") {
			keys++
			if !strings.Contains(string(text), key+":") {
				t.Errorf("the example does not show %s (%s)", key, m.Field)
			}
		}
	}
	if keys < 110 {
		t.Errorf("only %d keys were looked for", keys)
	}
}

// mistakes returns the mistakes that err joins.
func mistakes(t testing.TB, err error) []*Mistake {
	t.Helper()
	if err == nil {
		return nil
	}
	var one *Mistake
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if !errors.As(err, &one) {
			t.Fatalf("%T is no mistake: %v", err, err)
		}
		return []*Mistake{one}
	}
	var all []*Mistake
	for _, err := range joined.Unwrap() {
		if !errors.As(err, &one) {
			t.Fatalf("%T is no mistake: %v", err, err)
		}
		all = append(all, one)
	}
	return all
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "check" {
				t.Fatalf("unknown command %s", d.Cmd)
			}
			f, err := Decode("f", []byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			if !d.HasArg("show") {
				return "ok\n"
			}
			p, out := f.Proxy, ""
			for _, name := range slices.Sorted(maps.Keys(p.Workflows)) {
				out += fmt.Sprintf("%s %+v\n", name, p.Workflows[name])
			}
			for _, r := range p.Rules {
				s := r.Set
				out += fmt.Sprintf("%+v\n  -> %s %s %v", r.Match, s.Workflow, s.WorkflowHeader, s.Deadline)
				if s.Use != (classify.Use{}) {
					out += fmt.Sprintf(" %+v", s.Use)
				}
				if s.Class != nil {
					out += fmt.Sprintf(" class %v", *s.Class)
				}
				if s.Priority != nil {
					out += fmt.Sprintf(" priority %d", *s.Priority)
				}
				out += "\n"
			}
			return out + fmt.Sprintf("names %d, schedule %+v, rates %+v, health %+v\n", p.Names, p.Schedule, p.Rates, p.Health)
		})
	})
}

func TestNoEndOfMistakes(t *testing.T) {
	_, err := Decode("f", []byte(strings.Repeat("x: 1\n", 5000)))
	if n := len(mistakes(t, err)); n != plainyaml.MaxMistakes {
		t.Errorf("%d mistakes, want %d", n, plainyaml.MaxMistakes)
	}
	_, err = Decode("f", make([]byte, MaxSize+1))
	if err == nil || !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("a file that is too large: %v", err)
	}
}

func TestFilesThatAreNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "expected a readable file") {
		t.Errorf("a file that is missing: %v", err)
	}
	write(t, path, "slo: 1s\nlisten: {address: ':0', cert: a.pem, key: a.key}\nupstreams: {url: https://x, ca: b.pem}\n")
	write(t, filepath.Join(dir, "b.pem"), "nothing")
	_, err := Load(path)
	got := mistakes(t, err)
	if len(got) != 2 || got[0].Line != 2 || !strings.Contains(got[0].Error(), "a.pem") ||
		got[1].Line != 3 || !strings.Contains(got[1].Error(), "it holds no certificate") {
		t.Errorf("mistakes: %v", err)
	}
}

// Logs can be written only where there is a directory.
func TestLogsWithoutADirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	write(t, path, "slo: 1s\nlisten: ':0'\nupstreams: http://x\naccess_log: no/access.jsonl\nculprit: {audit: "+dir+"}\n")
	_, err := Load(path)
	if got := mistakes(t, err); len(got) != 2 || !strings.Contains(got[0].Error(), "access_log") || !strings.Contains(got[1].Error(), "culprit.audit") {
		t.Errorf("mistakes: %v", err)
	}
	write(t, path, "slo: 1s\nlisten: ':0'\nupstreams: http://x\naccess_log: access.jsonl\nculprit: {audit: audit.jsonl}\n")
	if _, err := Load(path); err != nil {
		t.Error(err)
	}
}

// Bounds that can be lifted are, by a word, as 0 is the default.
func TestNever(t *testing.T) {
	f, err := Decode("f", []byte("slo: 1s\nlisten: :0\nupstreams: http://x\nlimits: {body_rate: never, body_buffer: never, retries: never}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if l := f.Proxy.WithDefaults().Limits; l.BodyRate >= 0 || l.BodyBuffer >= 0 || l.Retries >= 0 {
		t.Errorf("%+v, expected negative values", l)
	}
}

// A network of IPv4 that is written as one of IPv6 is that of IPv4, as addresses of connections are.
func TestMappedNetworks(t *testing.T) {
	for text, want := range map[string]string{"::ffff:10.1.2.3": "10.1.2.3/32", "::ffff:10.1.2.3/104": "10.0.0.0/8", "::/0": "::/0", "fd00::1/8": "fd00::/8"} {
		if got, err := ParseNetwork(text); err != nil || got.String() != want {
			t.Errorf("%s is %v, %v, expected %s", text, got, err, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	// As editors and orchestrators do: a new file, moved into place.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := func(slo string) string { return "slo: " + slo + "\nlisten: :0\nupstreams: http://x\n" }
	write(t, path, text("1s"))
	first, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	type change struct {
		f   *File
		err error
	}
	changes := make(chan change)
	force := make(chan os.Signal, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, path, first, time.Millisecond, force, func(f *File, err error) { changes <- change{f, err} })
	}()
	write(t, path, text("2s"))
	if c := <-changes; c.err != nil || c.f.Proxy.Objective != 2*time.Second {
		t.Errorf("after the change: %+v", c)
	}
	write(t, path, text("fast"))
	if c := <-changes; c.err == nil || !strings.Contains(c.err.Error(), `slo: "fast"`) {
		t.Errorf("after a bad change: %+v", c)
	}
	force <- os.Interrupt
	if c := <-changes; c.err == nil {
		t.Errorf("after a forced look at a bad file: %+v", c)
	}
	write(t, path, text("3s"))
	if c := <-changes; c.err != nil || c.f.Proxy.Objective != 3*time.Second {
		t.Errorf("after the repair: %+v", c)
	}
	// The file comes before the certificate that it names, which is one mistake and is told once.
	dir := filepath.Dir(path)
	write(t, path, "slo: 4s\nlisten: {address: ':0', cert: c.pem, key: k.pem}\nupstreams: http://x\n")
	if c := <-changes; c.err == nil || !strings.Contains(c.err.Error(), "c.pem") {
		t.Errorf("without the certificate: %+v", c)
	}
	cert, key := pair(t)
	write(t, filepath.Join(dir, "k.pem"), key)
	write(t, filepath.Join(dir, "c.pem"), cert)
	for c := range changes {
		if c.err == nil {
			if c.f.Proxy.Objective != 4*time.Second {
				t.Errorf("with the certificate: %+v", c)
			}
			break
		} // while only one of both is there, that is another mistake
	}
	cancel()
	<-done
}

// pair returns a certificate and its key, as PEM.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", private)
}

func FuzzDecode(f *testing.F) {
	text, err := os.ReadFile(example)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, s := range []string{"guard: {servers: [{url: 'mysql://a:b@c', slo: 1s, allow: {kind: x}}]}", "guard: {servers: 'postgres://h'}", "", "-", "a: &a [*a]", "<<: 1", "? 1\n: 2", "slo: !!binary x", "listen: [[]]", "\xff", "x: |\n", "a:\n- b\n -c", "upstreams: {url: 'h2c://[::1%25eth0]:80/?'}", "trust: [::/0, 1.2.3.4/33]",
		"workflows: {a: , 'b c': {weight: .inf}, 1: 2}\nrules: [{match: {header: [a=, b=c]}, set: {workflow: a}}, 7]\nrates: {quantile: -0}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return // time, which MaxSize bounds, and not the decoder would be tested
		}
		file, err := Decode("f", data)
		if err == nil {
			if more := file.Proxy.Check(); len(more) > 0 && (file.Guard == nil || file.HasProxy()) {
				t.Fatalf("accepted in spite of %v", more)
			}
			if file.Guard != nil && len(file.Guard.Check()) > 0 {
				t.Fatalf("accepted in spite of %v", file.Guard.Check())
			}
			return
		}
		if n := len(mistakes(t, err)); n == 0 || n > plainyaml.MaxMistakes {
			t.Fatalf("%d mistakes", n)
		}
	})
}

// A limit that is switched off is the word never in a file, and what takes a negative number for it says so.
func TestNoNegativeNumbers(t *testing.T) {
	f, err := Decode("f", []byte("slo: 1s\nlisten: :1\nupstreams: http://a\nhealth: {failures: never}\nlimits: {retries: never, body_rate: never, body_buffer: never}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Proxy; p.Health.Failures >= 0 || p.Limits.Retries >= 0 || p.Limits.BodyRate >= 0 || p.Limits.BodyBuffer >= 0 {
		t.Errorf("read %+v and %+v", p.Health, p.Limits)
	}
	_, err = Decode("f", []byte("slo: 1s\nlisten: :1\nupstreams: http://a\nlimits: {body_rate: -1}\n"))
	if err == nil || !strings.Contains(err.Error(), "or never") {
		t.Errorf("-1 is answered %v, want one that names never", err)
	}
}
