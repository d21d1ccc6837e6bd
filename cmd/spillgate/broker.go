package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/config"
)

// brokerFlags are the flags of `spillgate broker` as they were typed.
type brokerFlags struct {
	config, admin       string
	listen, limits      []string
	logLevel, logFormat string
}

func newBroker() *cobra.Command {
	var f brokerFlags
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Carry MQTT messages, each topic within its rate",
		Long: `Serve MQTT 3.1.1 and 5 clients. A topic that a limit matches lets its burst through
at once and then its rate; what comes faster waits, and with QoS 1 and 2 so does its
acknowledgement, so that a flood on one topic does not delay the others. With police,
what comes faster is refused (reason code 0x97) instead.

Without flags it listens on ` + broker.DefaultListen + ` and limits nothing. There are no
users, no TLS and no storage yet, and one node: keep it on a private address.

SIGTERM and Ctrl-C drain: health checks fail, what waits goes, clients are told. SIGHUP
reads the configuration file again, which also happens by itself within about a second
when the file changes: limits of topics are taken, the log names what needs a restart.`,
		Example: `  spillgate broker
  spillgate broker --listen :1883 --admin 127.0.0.1:9092 --limit 'plant/+/telemetry rate=100 burst=20'
  spillgate broker --config spillgate.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBroker(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `file`, its key broker; flags replace keys")
	flags.StringArrayVar(&f.listen, "listen", nil, "`host:port` to serve MQTT on; may be repeated (default "+broker.DefaultListen+")")
	flags.StringVar(&f.admin, "admin", "", "`host:port` of metrics, status and health")
	flags.StringArrayVar(&f.limits, "limit", nil, "`limit` of topics, 'FILTER rate=R burst=B' and optionally police, shared, queue=N, queue_bytes=N; may be repeated")
	flags.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error (default info)")
	flags.StringVar(&f.logFormat, "log-format", "", "text or json (default text)")
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
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	var watching sync.WaitGroup
	if f.config != "" {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		r := brokerReloader{b: b, log: log, level: level, flags: f, json: file.Log.JSON}
		watching.Go(func() { config.Watch(ctx, f.config, file, configPoll, hangup, r.take) })
	}
	err = b.Run(ctx)
	cancel()
	watching.Wait()
	return err
}

// collectSeldom has garbage collected when the process uses that many bytes: a
// collection delays messages by milliseconds, and carrying them makes no garbage.
func collectSeldom(memory int) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(memory))
		debug.SetGCPercent(-1)
	}
}

// brokerReloader takes changed files while a broker runs.
type brokerReloader struct {
	b     *broker.Broker
	log   *slog.Logger
	level *slog.LevelVar
	flags brokerFlags
	json  bool // the format of the log
}

// take takes a changed file, or says why it does not: all of it or nothing.
func (r *brokerReloader) take(next *config.File, err error) {
	if err == nil {
		err = errors.Join(r.flags.override(next)...)
	}
	var ignored []string
	if err == nil {
		ignored, err = r.b.Reload(*next.Broker)
	}
	if err != nil {
		mistakes := flatten(err)
		r.log.Error("configuration not taken; the old one stays", "file", r.flags.config, "mistakes", len(mistakes))
		for _, m := range mistakes {
			r.log.Error("mistake in the configuration", "mistake", m)
		}
		return
	}
	if next.Log.JSON != r.json {
		ignored = append(ignored, "log.format")
	}
	r.level.Set(next.Log.Level)
	if len(ignored) > 0 {
		r.log.Warn("changes that need a restart", "keys", strings.Join(ignored, ", "))
	}
	r.log.Info("configuration taken", "file", r.flags.config)
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
	if f.logLevel != "" {
		level, err := config.ParseLevel(f.logLevel)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("--log-level %q: expected debug, info, warn or error", f.logLevel))
		}
		file.Log.Level = level
	}
	switch f.logFormat {
	case "":
	case "text", "json":
		file.Log.JSON = f.logFormat == "json"
	default:
		mistakes = append(mistakes, fmt.Errorf("--log-format %q: expected text or json", f.logFormat))
	}
	return mistakes
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
			return l, fmt.Errorf("%s: %q is no number", name, value)
		}
	}
	return l, nil
}
