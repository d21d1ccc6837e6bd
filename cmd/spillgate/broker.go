package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/config"
)

// brokerFlags are the flags of `spillgate broker` as they were typed.
type brokerFlags struct {
	config, admin  string
	listen, limits []string
	logs           logFlags
}

func newBroker() *cobra.Command {
	var f brokerFlags
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run an MQTT broker that keeps each topic within its rate",
		Long: `Serve MQTT 3.1.1 and 5 clients. A topic that a limit matches may send its burst at once
and then its rate. Messages beyond it wait, and with QoS 1 and 2 so do their
acknowledgements, so a flood on one topic does not delay the others. With police,
messages beyond the limit are refused (reason code 0x97).

Without flags the broker listens on ` + broker.DefaultListen + ` and limits nothing. It is one node
without users, TLS and storage: keep it on a private address.

SIGTERM and Ctrl-C drain: health checks fail, waiting messages are sent, clients are
told. The configuration file is read again within about a second after a change, and on
SIGHUP. New limits of topics apply at once; the log names keys that need a restart.`,
		Example: `  spillgate broker
  spillgate broker --listen :1883 --admin 127.0.0.1:9092 --limit 'plant/+/telemetry rate=100 burst=20'
  spillgate broker --config spillgate.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBroker(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `file` with the key broker; a flag replaces the key")
	flags.StringArrayVar(&f.listen, "listen", nil, "`host:port` to listen on; may be repeated (default "+broker.DefaultListen+")")
	flags.StringVar(&f.admin, "admin", "", "`host:port` for metrics, status and health checks; keep it private")
	flags.StringArrayVar(&f.limits, "limit", nil, "`limit` of topics: 'FILTER rate=R burst=B', and optionally police, shared, queue=N, queue_bytes=N; may be repeated")
	f.logs.add(flags)
	return cmd
}

func runBroker(cmd *cobra.Command, f brokerFlags) error {
	file, err := f.load()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(file.Log.Level)
	log := newLogger(cmd, file.Log.JSON, level)
	b, err := broker.New(*file.Broker, log)
	if err != nil {
		return err
	}
	collectSeldom(file.Broker.WithDefaults().Memory)
	running := serving{path: f.config, first: file, log: log, level: level, reload: func(next *config.File) ([]string, error) {
		if err := errors.Join(f.override(next)...); err != nil {
			return nil, err
		}
		return b.Reload(*next.Broker)
	}}
	return running.run(cmd.Context(), b.Run)
}

// collectSeldom has garbage collected when the process uses that many bytes: a
// collection delays messages by milliseconds, and carrying them makes no garbage.
func collectSeldom(memory int) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(memory))
		debug.SetGCPercent(-1)
	}
}

// load returns what file and flags make together, or every mistake.
func (f *brokerFlags) load() (*config.File, error) {
	file := &config.File{}
	if f.config != "" {
		var err error
		if file, err = config.Load(f.config); err != nil {
			return nil, usage(append(flatten(err), f.override(&config.File{})...)...)
		}
		if file.Broker == nil {
			return nil, usage(fmt.Errorf("--config %s: the file has no key broker", f.config))
		}
	}
	mistakes := f.override(file)
	if len(mistakes) == 0 {
		for _, m := range file.Broker.Check() {
			mistakes = append(mistakes, m)
		}
	}
	return file, usage(mistakes...)
}

// override puts the flags into file and returns what cannot be read.
func (f *brokerFlags) override(file *config.File) (mistakes []error) {
	if file.Broker == nil {
		file.Broker = &broker.Config{}
	}
	b := file.Broker
	replace(&b.Admin, f.admin)
	if f.listen != nil {
		b.Listen = f.listen
	}
	if f.limits != nil {
		b.Limits = nil
		for _, text := range f.limits {
			l, err := parseLimit(text)
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("--limit %q: %w", text, err))
			}
			b.Limits = append(b.Limits, l)
		}
	}
	return append(mistakes, f.logs.override(&file.Log)...)
}

// parseLimit reads "plant/+/telemetry rate=100 burst=20 shared".
func parseLimit(text string) (l engine.Limit, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return l, errors.New("expected a filter, rate= and burst=")
	}
	l.Filter = words[0]
	for _, word := range words[1:] {
		name, value, has := strings.Cut(word, "=")
		switch {
		case name == "police" && !has:
			l.Police = true
		case name == "shared" && !has:
			l.Shared = true
		case name == "rate":
			l.Rate, err = strconv.ParseFloat(value, 64)
		case name == "burst":
			l.Burst, err = strconv.ParseFloat(value, 64)
		case name == "queue":
			l.Queue, err = strconv.Atoi(value)
		case name == "queue_bytes":
			l.QueueBytes, err = strconv.Atoi(value)
		default:
			return l, fmt.Errorf("unknown word %q, expected rate=, burst=, police, shared, queue= or queue_bytes=", word)
		}
		if err != nil {
			return l, fmt.Errorf("%s: %q is not a number", name, value)
		}
	}
	return l, nil
}
