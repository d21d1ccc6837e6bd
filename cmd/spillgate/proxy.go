package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/config"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/proxy"
)

// proxyFlags are the flags of `spillgate proxy` as they were typed. They stay
// texts until all of them can be judged together.
type proxyFlags struct {
	config                          string
	listen, upstream, trust, exempt []string
	slo, mode, admin                string
	cert, key, clientCA             string
	upstreamCA, upstreamCert        string
	upstreamKey                     string
	insecure                        bool
	drainNotice, drainTimeout       string
	logs                            logFlags
}

func newProxy() *cobra.Command {
	var f proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Run a reverse proxy that keeps a service inside its objective",
		Long: `Run a reverse proxy in front of HTTP/1.1, HTTP/2 or gRPC servers. It admits the
requests that the servers can answer within the latency objective, and refuses the
others at once, with a retry-after.

Only the addresses and the objective are required; the proxy measures the capacity.
With --mode monitor it refuses nothing, and its metrics say what it would refuse.

SIGTERM and Ctrl-C drain: health checks fail, new requests are refused, requests
inside finish. A second signal cuts them off, and the log says how many. The
configuration file is read again within about a second after a change, and on SIGHUP.
If the new file has a mistake, the log lists all mistakes and the old configuration
stays. Some keys need a restart; the log names them. A flag beside --config replaces
the file's key.

If the servers call other services, send those calls through an egress address of the
file: a request then holds no slot while it waits for another service (the server must
pass traceparent on). With share.order, requests that go on to other services get more
of the slots; /.spillgate/classes at the admin address says which ones, and why.`,
		Example: `  spillgate proxy --listen :8080 --upstream http://127.0.0.1:9000 --slo 100ms
  spillgate proxy --listen :8080 --upstream h2c://10.0.0.1:50051 \
      --upstream h2c://10.0.0.2:50051 --slo 20ms --admin 127.0.0.1:9090
  spillgate proxy --config spillgate.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runProxy(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `file`; see spillgate check")
	flags.StringArrayVar(&f.listen, "listen", nil, "`host:port` to listen on, or unix:/path; may be repeated")
	flags.StringArrayVar(&f.upstream, "upstream", nil, "`url` of an upstream: http:// (HTTP/1.1), h2c:// (cleartext HTTP/2, gRPC), https://, or unix:/path; may be repeated")
	flags.StringVar(&f.slo, "slo", "", "latency objective: a `duration` such as 100ms")
	flags.StringVar(&f.mode, "mode", "", "off, monitor or enforce (default enforce)")
	flags.StringVar(&f.admin, "admin", "", "`host:port` for metrics, status and health checks; keep it private")
	flags.StringArrayVar(&f.trust, "trust", nil, "`network` whose tags and forwarding headers are believed, such as 10.0.0.0/8; may be repeated")
	flags.StringArrayVar(&f.exempt, "exempt", nil, "`path` that never waits and is never refused; may be repeated")
	flags.StringVar(&f.cert, "cert", "", "PEM `file` with the listeners' certificate")
	flags.StringVar(&f.key, "key", "", "PEM `file` with the key of that certificate")
	flags.StringVar(&f.clientCA, "client-ca", "", "PEM `file` with the authorities of client certificates; clients then need one")
	flags.StringVar(&f.upstreamCA, "upstream-ca", "", "PEM `file` with the authorities of upstreams' certificates (default: the system's)")
	flags.StringVar(&f.upstreamCert, "upstream-cert", "", "PEM `file` with the certificate that the proxy shows to upstreams")
	flags.StringVar(&f.upstreamKey, "upstream-key", "", "PEM `file` with the key of that certificate")
	flags.BoolVar(&f.insecure, "upstream-insecure", false, "accept any certificate from upstreams")
	flags.StringVar(&f.drainNotice, "drain-notice", "", "`duration` between failing health checks and refusing requests (default 0s)")
	flags.StringVar(&f.drainTimeout, "drain-timeout", "", "`duration` that requests inside may take to finish (default 30s)")
	f.logs.add(flags)
	return cmd
}

func runProxy(cmd *cobra.Command, f proxyFlags) error {
	file, err := f.load()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(file.Log.Level)
	log := newLogger(cmd, file.Log.JSON, level)
	p, err := proxy.New(file.Proxy, log)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(ballast())
	running := serving{path: f.config, first: file, log: log, level: level, hurry: p.Hurry, reopen: p.Reopen, reload: func(next *config.File) ([]string, error) {
		if err := errors.Join(f.override(next)...); err != nil {
			return nil, err
		}
		return p.Reload(next.Proxy)
	}}
	return running.run(cmd.Context(), p.Run)
}

// ballastSize is what the proxy's heap is larger than it need be, in bytes. A proxy of a few connections has 2 MB in
// use, so that 2 MB of garbage, which 150 requests make, had it collect, for a millisecond of a processor: at 20,000
// requests/s an eighth of the time. 16 MB more leave a seventh of that (93 and 14 collections in the same requests), and
// more would save little more.
const ballastSize = 16 << 20

// ballast returns memory that counts as the proxy's and is never used, so that it takes no room, but has garbage
// collected later: the process takes up to ballastSize more. Where GOGC or GOMEMLIMIT says when garbage is to be
// collected, there is none.
func ballast() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, ballastSize)
}

// load returns the configuration that file and flags make together, or every
// mistake in both.
func (f *proxyFlags) load() (*config.File, error) {
	file := &config.File{}
	var fromFile error
	if f.config != "" {
		if file, fromFile = config.Load(f.config); fromFile != nil {
			file = &config.File{}
		}
	}
	mistakes := f.override(file)
	if fromFile != nil {
		// What is missing may be what the file has; only its own mistakes count.
		return nil, usage(append(flatten(fromFile), mistakes...)...)
	}
	wrong := map[string]bool{}
	for _, m := range mistakes {
		if flag, _, ok := strings.Cut(m.Error(), " "); ok {
			wrong[flag] = true
		}
	}
	for _, m := range append(file.Proxy.Check(), file.Proxy.CheckFiles()...) {
		name := flagFor(m.Field)
		if wrong[name] {
			continue // said already
		}
		if m.Value == "" {
			mistakes = append(mistakes, fmt.Errorf("%s is missing, expected %s", name, m.Want))
		} else {
			mistakes = append(mistakes, fmt.Errorf("%s %s: expected %s", name, m.Value, m.Want))
		}
	}
	return file, usage(mistakes...)
}

// override puts the flags into file and returns what cannot be read. Every
// mistake begins with its flag.
func (f *proxyFlags) override(file *config.File) (mistakes []error) {
	p := &file.Proxy
	duration := func(flag, value string, to *time.Duration) {
		if value == "" {
			return
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			mistakes = append(mistakes, fmt.Errorf("%s %q: expected a duration such as 100ms", flag, value))
			return
		}
		*to = d
	}
	duration("--slo", f.slo, &p.Objective)
	duration("--drain-notice", f.drainNotice, &p.Drain.Notice)
	duration("--drain-timeout", f.drainTimeout, &p.Drain.Timeout)
	if f.mode != "" {
		m, err := live.ParseMode(f.mode)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("--mode %q: expected off, monitor or enforce", f.mode))
		}
		p.Mode = m
	}
	if f.admin != "" {
		p.Admin = f.admin
	}
	if f.listen != nil {
		p.Listen = nil
		for _, address := range f.listen {
			p.Listen = append(p.Listen, proxy.Listener{Address: address})
		}
	}
	for i := range p.Listen {
		l := &p.Listen[i]
		replace(&l.Cert, f.cert)
		replace(&l.Key, f.key)
		replace(&l.ClientCA, f.clientCA)
	}
	if f.upstream != nil {
		p.Upstreams = nil
		for _, url := range f.upstream {
			p.Upstreams = append(p.Upstreams, proxy.Upstream{URL: url})
		}
	}
	reached := func(all []proxy.Upstream) {
		for i := range all {
			u := &all[i]
			replace(&u.CA, f.upstreamCA)
			replace(&u.Cert, f.upstreamCert)
			replace(&u.Key, f.upstreamKey)
			u.Insecure = u.Insecure || f.insecure
		}
	}
	reached(p.Upstreams)
	for i := range p.Groups {
		reached(p.Groups[i].Upstreams)
	}
	if f.trust != nil {
		p.Trust = nil
		for _, s := range f.trust {
			n, err := config.ParseNetwork(s)
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("--trust %q: expected a network such as 10.0.0.0/8 or an address such as 192.0.2.1", s))
				continue
			}
			p.Trust = append(p.Trust, n)
		}
	}
	if f.exempt != nil {
		p.Exempt = f.exempt
	}
	return append(mistakes, f.logs.override(&file.Log)...)
}

func replace(to *string, value string) {
	if value != "" {
		*to = value
	}
}

// flagFor names the flag that sets a field of the configuration; the field
// itself if none does.
func flagFor(field string) string {
	name, rest, _ := strings.Cut(field, ".")
	name, _, _ = strings.Cut(name, "[")
	switch {
	case name == "listen" && (rest == "" || rest == "address"):
		return "--listen"
	case slices.Contains([]string{"listen.cert", "listen.key", "listen.client_ca"}, name+"."+rest):
		return "--" + strings.ReplaceAll(rest, "_", "-")
	case name == "upstreams" && (rest == "" || rest == "url" || rest == "name"):
		return "--upstream"
	case slices.Contains([]string{"upstreams.ca", "upstreams.cert", "upstreams.key", "upstreams.insecure"}, name+"."+rest):
		return "--upstream-" + rest
	case name == "drain":
		return "--drain-" + rest
	case slices.Contains([]string{"slo", "mode", "admin", "trust", "exempt"}, name):
		return "--" + name
	}
	return field
}
