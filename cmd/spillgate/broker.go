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
	anonymous      string
	tls            broker.TLS
	node, data     string
	nats, at       string
	natsListen     string
	address, place string
	capacity       float64
	cluster        []string
	logs           logFlags
}

func newBroker() *cobra.Command {
	var f brokerFlags
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run a message broker that keeps each topic within its rate",
		Long: `Serve clients of MQTT 3.1.1 and 5, NATS and NSQ, which share the topics. A topic that a
limit matches may send its burst at once and then its rate. Messages beyond it wait, and
with QoS 1 and 2 so do their acknowledgements, so a flood on one topic does not delay the
others. With police, messages beyond the limit are refused (reason code 0x97).

With --data, messages of QoS 1 and 2 are acknowledged after they are stored, and sessions
outlive the process. --cluster lists the nodes and --at is this node's own address. Three
nodes keep three copies of each message, so any one of them may die. --nats uses NATS
servers that run elsewhere instead of one in each process. Keep the addresses of nodes
private.

Without flags the broker listens on ` + broker.DefaultListen + `, limits nothing, is one node and
keeps everything in memory. Addresses that other machines reach need users, which a
configuration file has, or --anonymous anywhere. A protocol is written before an address,
with +tls where the listener has TLS: nats://127.0.0.1:4222, mqtt+tls://:8883.

SIGTERM and Ctrl-C drain: health checks fail, waiting messages are sent, clients are
told. The configuration file is read again within about a second after a change, and on
SIGHUP. New users and limits of topics apply at once. Certificates and files of passwords
are looked at every ten seconds. The log names keys that need a restart.`,
		Example: `  spillgate broker
  spillgate broker --listen 127.0.0.1:1883 --listen nats://127.0.0.1:4222 \
      --admin 127.0.0.1:9092 --limit 'plant/+/telemetry rate=100 burst=20'
  spillgate broker --node n1 --data ./n1 --at 10.0.0.1:6222 \
      --cluster 10.0.0.1:6222,10.0.0.2:6222,10.0.0.3:6222
  spillgate broker --config spillgate.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBroker(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `file` with the key broker; a flag replaces the key")
	flags.StringArrayVar(&f.listen, "listen", nil, "`[protocol://]host:port` to listen on, MQTT if no protocol is given; may be repeated (default "+broker.DefaultListen+")")
	flags.StringVar(&f.anonymous, "anonymous", "", "`where` clients without a name may come from: loopback, anywhere or nowhere (default loopback, and nowhere if there are users)")
	flags.StringVar(&f.tls.Cert, "cert", "", "PEM `file` with the certificate of listeners with TLS")
	flags.StringVar(&f.tls.Key, "key", "", "PEM `file` with the certificate's key")
	flags.StringVar(&f.tls.ClientCA, "client-ca", "", "PEM `file` with the authorities of client certificates; clients then need a certificate")
	flags.StringVar(&f.admin, "admin", "", "`host:port` for metrics, status and health checks; keep it private")
	flags.StringArrayVar(&f.limits, "limit", nil, "`limit` of topics: 'FILTER rate=R burst=B', and optionally police, shared, queue=N, queue_bytes=N; may be repeated")
	flags.StringVar(&f.node, "node", "", "`name` of this node, the same after a restart (default n1 with --data alone)")
	flags.StringVar(&f.data, "data", "", "`directory` for messages and sessions that outlive the process")
	flags.StringVar(&f.at, "at", "", "`host:port` at which this node accepts the other nodes")
	flags.StringSliceVar(&f.cluster, "cluster", nil, "`host:port` of every node, separated by commas")
	flags.StringVar(&f.natsListen, "nats-listen", "", "`host:port` at which the NATS server in this process accepts clients such as spillgate place")
	flags.StringVar(&f.nats, "nats", "", "`URL` of NATS servers that run elsewhere, instead of --data, --at and --cluster")
	flags.StringVar(&f.address, "address", "", "`host:port` at which clients reach this node, for placement")
	flags.Float64Var(&f.capacity, "capacity", 0, "messages per second that this node serves within its topics' objectives")
	flags.StringVar(&f.place, "place", "", "`host:port` at which to answer GET /v1/place")
	f.logs.add(flags)
	cmd.AddCommand(newBrokerPassword())
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
		for _, m := range append(file.Broker.Check(), file.Broker.CheckFiles()...) {
			mistakes = append(mistakes, f.typed(m))
		}
	}
	return file, usage(mistakes...)
}

// keyFlags are the flags of keys of the file.
var keyFlags = map[string]string{
	"listen": "--listen", "limits": "--limit", "anonymous.from": "--anonymous", "admin": "--admin", "tls.cert": "--cert", "tls.key": "--key",
	"tls.client_ca": "--client-ca", "cluster.node": "--node", "cluster.data": "--data", "cluster.cluster": "--at", "cluster.url": "--nats",
	"cluster.routes": "--cluster", "cluster.listen": "--nats-listen", "place.address": "--address", "place.capacity": "--capacity", "place.listen": "--place",
}

// typed returns a mistake with the flag that it is in, if there is no file that it may be in.
func (f *brokerFlags) typed(m *broker.Mistake) error {
	key, rest, list := strings.Cut(m.Field, "[")
	flag := keyFlags[key]
	if f.config != "" || flag == "" {
		return m
	}
	if place, field, ok := strings.Cut(rest, "]."); list && ok && key == "limits" {
		if i, err := strconv.Atoi(place); err == nil && i < len(f.limits) {
			return fmt.Errorf("--limit %q: %s is %s, expected %s", f.limits[i], field, m.Value, m.Want)
		}
	}
	if m.Value == "" {
		return fmt.Errorf("%s is missing, expected %s", flag, m.Want)
	}
	return fmt.Errorf("%s %s: expected %s", flag, m.Value, m.Want)
}

// override puts the flags into file and returns what cannot be read.
func (f *brokerFlags) override(file *config.File) (mistakes []error) {
	if file.Broker == nil {
		file.Broker = &broker.Config{}
	}
	b := file.Broker
	replace(&b.Admin, f.admin)
	replace(&b.Access.Anonymous.From, f.anonymous)
	replace(&b.TLS.Cert, f.tls.Cert)
	replace(&b.TLS.Key, f.tls.Key)
	replace(&b.TLS.ClientCA, f.tls.ClientCA)
	if f.listen != nil {
		b.Listen = f.listen
	}
	replace(&b.Cluster.Node, f.node)
	replace(&b.Cluster.Data, f.data)
	replace(&b.Cluster.Cluster, f.at)
	replace(&b.Cluster.URL, f.nats)
	replace(&b.Cluster.Listen, f.natsListen)
	replace(&b.Place.Address, f.address)
	replace(&b.Place.Listen, f.place)
	if f.capacity != 0 {
		b.Place.Capacity = f.capacity
	}
	if f.cluster != nil {
		b.Cluster.Routes = f.cluster
	}
	if c := &b.Cluster; c.Data != "" && c.Node == "" && c.Cluster == "" {
		c.Node = "n1"
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
