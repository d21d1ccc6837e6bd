package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/table"
)

// placeFlags are the flags that all parts of `spillgate place` share.
type placeFlags struct {
	nats          string
	ca, cert, key string
	dryRun        bool
}

// dial connects to the state.
func (f *placeFlags) dial(ctx context.Context, url string) (*place.Placer, func(), error) {
	var secure []nats.Option
	if f.ca != "" {
		secure = append(secure, nats.RootCAs(f.ca))
	}
	if (f.cert != "") != (f.key != "") {
		return nil, nil, usage(fmt.Errorf("--cert %q with --key %q, expected both or none", f.cert, f.key))
	}
	if f.cert != "" {
		secure = append(secure, nats.ClientCert(f.cert, f.key))
	}
	return place.Dial(ctx, url, secure...)
}

func newPlace() *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:   "place",
		Short: "Decide which broker nodes hold the publishers of each topic",
		Long: `Keep the nodes, the topics with their limits and objectives, and the node of each
publisher. The publishers of a topic go to few nodes, in equal parts, and each group
that fires together is spread over all of them, because each split of a topic's bucket
delays its messages.

The state is in NATS JetStream. "place serve" starts its own NATS server and answers
GET /v1/place?topic=T&publisher=P. The other commands may run anywhere and at the same
time: if another change came first, a change is decided again.

Brokers that use the same NATS follow the placement: they divide each topic's bucket and
send publishers to their nodes. Predictions of a p99 come from a model. Nodes measure: if
one misses a topic's objective in three windows of 10 s, some of its publishers move, and
from a node that is silent all do; "place moves" says why.`,
		Example: `  spillgate place serve --data ./place
  spillgate place node n1 --address 10.0.0.1:1883 --capacity 60000
  spillgate place topic sensors --rate 11000 --burst 26 --objective 1ms \
      --publisher-rate 10
  spillgate place where sensors device-17 --group hall-3
  spillgate place explain sensors
  spillgate place drain n1 --dry-run`,
		Args: noArgs,
	}
	cmd.PersistentFlags().StringVar(&f.nats, "nats", "nats://127.0.0.1:4222", "`URL` of the NATS server with the state, or several separated by commas")
	cmd.PersistentFlags().StringVar(&f.ca, "ca", "", "PEM `file` with the authority of the NATS server's certificate")
	cmd.PersistentFlags().StringVar(&f.cert, "cert", "", "PEM `file` with a certificate to show to the NATS server")
	cmd.PersistentFlags().StringVar(&f.key, "key", "", "PEM `file` with that certificate's key")
	cmd.AddCommand(newPlaceServe(&f), newPlaceList(&f), newPlaceExplain(&f), newPlaceWhere(&f), newPlaceTopic(&f), newPlaceNode(&f), newPlaceDrain(&f), newPlaceMoves(&f))
	return cmd
}

// commandTime bounds a command that is not to stay.
const commandTime = 30 * time.Second

// with opens the state for a command.
func (f *placeFlags) with(cmd *cobra.Command, do func(ctx context.Context, p *place.Placer) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), commandTime)
	defer cancel()
	p, end, err := f.dial(ctx, f.nats)
	if err != nil {
		return err
	}
	defer end()
	return wrong(do(ctx, p))
}

// wrong makes what the user asked for wrongly a mistake of usage.
func wrong(err error) error {
	var mistake *place.Mistake
	if errors.As(err, &mistake) {
		return usage(flatten(err)...)
	}
	return err
}

// change makes a change, or tries it, and prints the moves that it means.
func (f *placeFlags) change(cmd *cobra.Command, change func(*place.State) error) error {
	return f.with(cmd, func(ctx context.Context, p *place.Placer) error {
		by := p.Update
		if f.dryRun {
			by = p.Try
		}
		moves, err := place.Moved(func(c func(*place.State) error) (*place.State, error) { return by(ctx, c) }, change)
		if err != nil {
			return err
		}
		if f.dryRun {
			fmt.Fprintln(cmd.OutOrStdout(), "Nothing is changed (--dry-run).")
		}
		return printMoves(cmd, moves)
	})
}

func (f *placeFlags) dry(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would move, and change nothing")
}

func printMoves(cmd *cobra.Command, moves []place.Move) error {
	if len(moves) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "No publisher moves.")
		return nil
	}
	t := &table.Table{Title: "Moves", Columns: []table.Column{{Name: "at"}, {Name: "topic"}, {Name: "publisher"}, {Name: "from"}, {Name: "to"}, {Name: "because"}}}
	for _, m := range moves {
		to := m.To
		if to == "" {
			to = "(no room)"
		}
		t.Add(m.At.Format(time.RFC3339), m.Topic, m.Publisher, m.From, to, m.Why)
	}
	return t.Print(cmd.OutOrStdout())
}

func newPlaceServe(f *placeFlags) *cobra.Command {
	var listen, embed, data string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer over HTTP where publishers belong",
		Long: `Answer GET /v1/place?topic=T&publisher=P, and the rest of the interface over HTTP, for
whoever reaches the address. Without --nats a NATS server with JetStream is started in
this process; several that serve at once share one with --nats.`,
		Example: `  spillgate place serve --data ./place
  spillgate place serve --nats nats://nats1:4222,nats://nats2:4222 \
      --listen 127.0.0.1:9481`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url := f.nats
			if !cmd.Flags().Changed("nats") {
				own, stop, err := place.Embed(embed, data)
				if err != nil {
					return err
				}
				defer stop()
				url = own
			}
			return f.serve(cmd, url, listen)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:9480", "`host:port` of HTTP")
	flags.StringVar(&embed, "embed", "127.0.0.1:4222", "`host:port` of the NATS server in this process")
	flags.StringVar(&data, "data", "spillgate-place", "`directory` in which that server keeps the state")
	return cmd
}

// serve answers until the context of the command ends.
func (f *placeFlags) serve(cmd *cobra.Command, url, listen string) error {
	p, end, err := f.dial(cmd.Context(), url)
	if err != nil {
		return err
	}
	defer end()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	log := newLogger(cmd, false, new(slog.LevelVar))
	log.Info("placing", "http", "http://"+l.Addr().String(), "nats", url)
	srv := place.Server(p, slog.NewLogLogger(log.Handler(), slog.LevelWarn))
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-cmd.Context().Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
	defer cancel()
	err = srv.Shutdown(ctx)
	<-ended
	return err
}

func newPlaceList(f *placeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List nodes and topics", Example: "  spillgate place list", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, p *place.Placer) error {
				s, revision, err := p.Load(ctx)
				if err != nil {
					return err
				}
				nodes := &table.Table{Title: fmt.Sprintf("Nodes, revision %d", revision), Columns: []table.Column{{Name: "node"}, {Name: "address"}, {Name: "capacity", Unit: "/s"}, {Name: "load", Unit: "/s"}, {Name: "topics"}, {Name: "state"}}}
				for _, n := range s.List() {
					nodes.Add(n.Name, n.Address, n.Capacity, n.Load, len(n.Topics), n.Condition())
				}
				topics := &table.Table{Title: "Topics", Columns: []table.Column{{Name: "topic"}, {Name: "limit", Unit: "/s"}, {Name: "burst"}, {Name: "p99 within", Unit: "ms"}, {Name: "node"}, {Name: "publishers"}, {Name: "part", Unit: "/s"}, {Name: "its burst", Format: "%.2f"}}}
				for _, t := range s.ListTopics() {
					if len(t.Parts) == 0 {
						topics.Add(t.Topic, t.Rate, t.Burst, t.Wanted*1e3, "", 0, 0., 0.)
					}
					for _, part := range t.Parts {
						topics.Add(t.Topic, t.Rate, t.Burst, t.Wanted*1e3, part.Node, part.Publishers, part.Rate, part.Burst)
					}
					if t.Nowhere > 0 {
						topics.Add(t.Topic, t.Rate, t.Burst, t.Wanted*1e3, "(no room)", t.Nowhere, 0., 0.)
					}
				}
				if err := nodes.Print(cmd.OutOrStdout()); err != nil {
					return err
				}
				return topics.Print(cmd.OutOrStdout())
			})
		},
	}
}

func newPlaceExplain(f *placeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "explain TOPIC", Short: "Explain why a topic is on as many nodes as it is", Example: "  spillgate place explain sensors", Args: needs("TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, p *place.Placer) error {
				s, _, err := p.Load(ctx)
				if err != nil {
					return err
				}
				e, err := s.Explain(args[0])
				if err == nil {
					fmt.Fprint(cmd.OutOrStdout(), e)
				}
				return err
			})
		},
	}
}

func newPlaceWhere(f *placeFlags) *cobra.Command {
	var j place.Join
	var objective time.Duration
	cmd := &cobra.Command{
		Use: "where TOPIC PUBLISHER", Short: "Print where a publisher belongs, and place it if it is new",
		Example: "  spillgate place where sensors device-17 --group hall-3", Args: needs("TOPIC", "PUBLISHER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, p *place.Placer) error {
				j.Publisher, j.Objective = args[1], objective.Seconds()
				at, err := p.Place(ctx, args[0], j)
				if err == nil && at.Node == "" {
					err = fmt.Errorf("no node has room for %s: add a node", args[1])
				}
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), at.Address)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&j.Group, "group", "", "`name` of the group with which it fires")
	cmd.Flags().DurationVar(&objective, "objective", 0, "p99 that it asks for (default: the topic's)")
	cmd.Flags().Float64Var(&j.Rate, "rate", 0, "messages per second that it sends (default: the topic's publisher-rate)")
	return cmd
}

func newPlaceTopic(f *placeFlags) *cobra.Command {
	var l place.Limits
	var objective, strictest time.Duration
	var remove bool
	cmd := &cobra.Command{
		Use: "topic NAME", Short: "Set the limits of a topic, or remove it",
		Example: "  spillgate place topic sensors --rate 11000 --burst 26 --objective 1ms \\\n      --publisher-rate 10", Args: needs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l.Objective, l.Strictest = objective.Seconds(), strictest.Seconds()
			return f.change(cmd, func(s *place.State) error {
				if remove {
					return s.RemoveTopic(args[0])
				}
				return s.SetTopic(args[0], l)
			})
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&l.Rate, "rate", 0, "limit in messages per second")
	flags.Float64Var(&l.Burst, "burst", 0, "messages that may arrive at once")
	flags.DurationVar(&objective, "objective", 0, "p99 from arrival to delivery, such as 1ms")
	flags.DurationVar(&strictest, "strictest", 0, "lowest objective that publishers may ask for (default: theirs do not count)")
	flags.Float64Var(&l.Each, "publisher-rate", 0, "messages per second of a publisher that does not say")
	flags.Float64Var(&l.Batch, "batch", 1, "messages that a publisher sends at once")
	flags.BoolVar(&remove, "remove", false, "forget the topic and its publishers")
	f.dry(cmd)
	return cmd
}

func newPlaceNode(f *placeFlags) *cobra.Command {
	var n place.Node
	var remove bool
	cmd := &cobra.Command{
		Use: "node NAME", Short: "Add or change a node, or remove it",
		Example: "  spillgate place node n1 --address 10.0.0.1:1883 --capacity 60000", Args: needs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, func(s *place.State) error {
				if remove {
					return s.RemoveNode(args[0])
				}
				return s.SetNode(args[0], n)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&n.Address, "address", "", "`host:port` at which clients reach the node")
	flags.Float64Var(&n.Capacity, "capacity", 0, "messages per second that the node serves within its topics' objectives")
	flags.BoolVar(&remove, "remove", false, "forget the node, once it is drained")
	f.dry(cmd)
	return cmd
}

func newPlaceDrain(f *placeFlags) *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Move everything from a node", Example: "  spillgate place drain n1 --dry-run", Args: needs("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, func(s *place.State) error { return s.Drain(args[0], !off) })
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "use the node again")
	f.dry(cmd)
	return cmd
}

func newPlaceMoves(f *placeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "moves", Short: "List the last moves", Example: "  spillgate place moves", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, p *place.Placer) error {
				s, _, err := p.Load(ctx)
				if err != nil {
					return err
				}
				return printMoves(cmd, s.Moves)
			})
		},
	}
}
