package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/config"
)

// configPoll is how often the configuration file is looked at for changes.
const configPoll = time.Second

// logFlags are the flags of the log as they were typed.
type logFlags struct{ level, format string }

func (f *logFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.level, "log-level", "", "debug, info, warn or error (default info)")
	flags.StringVar(&f.format, "log-format", "", "text or json (default text)")
}

// override puts the flags into a configuration and returns what cannot be read.
func (f *logFlags) override(to *config.Log) (mistakes []error) {
	if f.level != "" {
		level, err := config.ParseLevel(f.level)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("--log-level %q: expected debug, info, warn or error", f.level))
		}
		to.Level = level
	}
	switch f.format {
	case "":
	case "text", "json":
		to.JSON = f.format == "json"
	default:
		mistakes = append(mistakes, fmt.Errorf("--log-format %q: expected text or json", f.format))
	}
	return mistakes
}

// newLogger logs to the command's standard error, and has what libraries write with package log come there in the
// same form: net/http reports so, for example, what a server sends on an idle connection.
func newLogger(cmd *cobra.Command, json bool, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	handler := slog.Handler(slog.NewTextHandler(cmd.ErrOrStderr(), options))
	if json {
		options.ReplaceAttr = durationsAsText
		handler = slog.NewJSONHandler(cmd.ErrOrStderr(), options)
	}
	log := slog.New(handler)
	slog.SetLogLoggerLevel(slog.LevelWarn) // what they say at all is worth more than what this program says in passing
	slog.SetDefault(log)
	return log
}

// durationsAsText has JSON say a duration as text does, with its unit: slog would write
// nanoseconds, as a number that looks like any other.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// serving is a program that takes a changed configuration file while it runs.
type serving struct {
	path  string // of the file, empty without one
	first *config.File
	log   *slog.Logger
	level *slog.LevelVar
	// reload takes what a changed file says, all of it or nothing, and returns the keys
	// that need a restart.
	reload func(*config.File) (ignored []string, err error)
	// reopen, if not nil, opens logs again that may have been moved away, where reload takes nothing: on SIGHUP without a file, or with one that has a
	// mistake. What reload takes opens them itself.
	reopen func()
	// hurry, if not nil, ends the way out at once.
	hurry func()
}

// run runs the program until ctx or run itself ends, and looks at the file meanwhile. SIGHUP never ends
// it: a supervisor may send it to all that it runs, with or without a file.
func (s *serving) run(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if s.path != "" {
		watching.Go(func() { config.Watch(ctx, s.path, s.first, configPoll, hangup, s.take) })
	} else {
		watching.Go(func() { s.ignore(ctx, hangup) })
	}
	inside := ctx
	if s.hurry != nil {
		ended := make(chan struct{})
		defer close(ended)
		var leave context.CancelFunc
		inside, leave = context.WithCancel(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, func() { s.again(leave, ended) })
	}
	err := run(inside)
	cancel()
	watching.Wait()
	return err
}

// ignore says of each SIGHUP that there is nothing to read, unless there is something to open again, until ctx ends.
func (s *serving) ignore(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			if s.reopen != nil {
				s.reopen()
				continue
			}
			s.log.Warn("SIGHUP is ignored: there is no configuration file to read, expected --config FILE")
		}
	}
}

// again has the program leave, and waits for the second signal to stop until the program has ended.
func (s *serving) again(leave func(), ended <-chan struct{}) {
	second := make(chan os.Signal, 1)
	signal.Notify(second, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(second)
	leave() // a second signal, once it is seen to leave, does not end it as it would by itself
	select {
	case <-second:
		s.hurry()
	case <-ended:
	}
}

// take takes a changed file, or says why it does not: all of it or nothing.
func (s *serving) take(next *config.File, err error) {
	var ignored []string
	if err == nil {
		ignored, err = s.reload(next)
	}
	if err != nil {
		if s.reopen != nil {
			s.reopen()
		}
		mistakes := flatten(err)
		s.log.Error("configuration not taken; the old one stays", "file", s.path, "mistakes", len(mistakes))
		for _, m := range mistakes {
			s.log.Error("mistake in the configuration", "mistake", m)
		}
		return
	}
	if next.Log.JSON != s.first.Log.JSON {
		ignored = append(ignored, "log.format")
	}
	s.level.Set(next.Log.Level)
	if len(ignored) > 0 {
		s.log.Warn("changes that need a restart", "keys", strings.Join(ignored, ", "))
	}
	s.log.Info("configuration taken", "file", s.path)
}
