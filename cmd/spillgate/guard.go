package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/config"
	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/culprit"
)

// guardFlags are the flags of `spillgate guard` as they were typed.
type guardFlags struct {
	config, slo, mode, period, admin, audit, killSwitch, passwordFile string
	allow, deny, background                                           []string
	showStatements, printSetup                                        bool
	logs                                                              logFlags
}

func newGuard() *cobra.Command {
	var f guardFlags
	cmd := &cobra.Command{
		Use:   "guard [URL...]",
		Short: "Name the session or request that blocks a server, and cancel it",
		Long: `Watch PostgreSQL (13 to 18), MariaDB (10.6 or later), MySQL (8), OpenSearch and
Elasticsearch through their own views, without changing the servers, and Solr (9.9)
through two handlers of a core (tracer/solr). The guard names the session that holds what the
others wait for. In mode enforce it cancels that session's statement, or ends the
session where only that helps. Apache httpd 2.4 (apache://, with mod_spillgate) and PHP-FPM
(php-fpm://, PHP 8.0 or later) are watched for requests that take all workers.

In mode monitor, the default, the log says what enforce would do. Replication, schema
changes, backups and maintenance are never cancelled unless --allow names them. While
the file of --kill-switch exists, nothing is cancelled.

A changed configuration file is read within about a second, or on SIGHUP: rules, mode,
caps and kill switch change, and what was learned stays. SIGHUP opens the file of --audit
again, so that it can be rotated; without a configuration file it changes nothing else.

--print-setup prints the statements that create a role with the least rights, or what else
the server needs. The guard
shows passwords in URLs nowhere, but other users of this machine may see command lines:
use --password-file, the configuration file, or the server's own way (PGPASSFILE).`,
		Example: `  spillgate guard --slo 500ms postgres://spillgate@db1/app
  spillgate guard --slo 200ms --mode enforce --audit audit.jsonl \
      --admin 127.0.0.1:9091 mariadb://spillgate@db2:3306 --password-file pw
  spillgate guard --slo 500ms opensearch://spillgate@search1:9200?tls=true \
      --password-file pw
  spillgate guard --print-setup postgres://spillgate@db1/app
  spillgate guard --slo 500ms \
      apache://127.0.0.1:80/run/spillgate/apache.tasks \
      'php-fpm://127.0.0.1:9001/status?listen=127.0.0.1:9000'
  spillgate guard --config spillgate.yaml
  spillgate guard replay audit.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runGuard(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `file` with the key guard; a flag replaces the key of every server")
	flags.StringVar(&f.slo, "slo", "", "latency objective of foreground statements: a `duration` such as 500ms")
	flags.StringVar(&f.mode, "mode", "", "off, monitor or enforce (default monitor)")
	flags.StringVar(&f.period, "period", "", "`duration` between two looks, 10ms to 10s (default 100ms)")
	flags.StringVar(&f.admin, "admin", "", "`host:port` for metrics, status and health checks; keep it private")
	flags.StringVar(&f.audit, "audit", "", "`file` to append the decisions of incidents to, as JSON lines")
	flags.StringVar(&f.killSwitch, "kill-switch", "", "`file` that prevents all cancels while it exists")
	flags.StringVar(&f.passwordFile, "password-file", "", "`file` with the password; read at each connect")
	flags.StringArrayVar(&f.allow, "allow", nil, "`rule` for what may be cancelled although it is protected by default, such as kind=schema or user=etl,kind=backup; may be repeated")
	flags.StringArrayVar(&f.deny, "deny", nil, "`rule` for what is never cancelled; may be repeated")
	flags.StringArrayVar(&f.background, "background", nil, "`rule` for what has no latency objective; may be repeated")
	flags.BoolVar(&f.showStatements, "show-statements", false, "show statements, without literals, in log, status and audit")
	flags.BoolVar(&f.printSetup, "print-setup", false, "print what the server needs, such as the statements that create a role with the least rights, and exit")
	f.logs.add(flags)
	cmd.AddCommand(newReplay())
	return cmd
}

func runGuard(cmd *cobra.Command, f guardFlags, urls []string) error {
	if f.printSetup {
		return printSetup(cmd, urls)
	}
	file, err := f.load(urls)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(file.Log.Level)
	log := newLogger(cmd, file.Log.JSON, level)
	set, err := guard.NewSet(*file.Guard, log)
	if err != nil {
		return err
	}
	running := serving{path: f.config, first: file, log: log, level: level, reload: func(next *config.File) ([]string, error) {
		if err := f.complete(next, urls); err != nil {
			return nil, err
		}
		ignored, err := set.Reload(*next.Guard)
		if err == nil {
			set.Reopen()
		}
		return ignored, err
	}}
	if file.Guard.Audit != "" {
		running.reopen = set.Reopen
	}
	return running.run(cmd.Context(), set.Run)
}

// printSetup prints what makes the roles that guards of the servers need.
func printSetup(cmd *cobra.Command, urls []string) error {
	if len(urls) == 0 {
		return usage(errors.New("no server named, expected one such as postgres://spillgate@host/database"))
	}
	var mistakes []error
	for _, url := range urls {
		text, err := guard.Setup(url)
		mistakes = append(mistakes, err)
		fmt.Fprint(cmd.OutOrStdout(), text)
	}
	return usage(mistakes...)
}

// load returns what file, flags and arguments make together, or every mistake.
func (f *guardFlags) load(urls []string) (*config.File, error) {
	file := &config.File{Guard: &guard.SetConfig{}}
	if f.config != "" {
		var err error
		if file, err = config.Load(f.config); err != nil {
			return nil, usage(flatten(err)...)
		}
	}
	return file, usage(flatten(f.complete(file, urls))...)
}

// complete puts arguments and flags into what a file says, and returns every mistake.
func (f *guardFlags) complete(file *config.File, urls []string) error {
	cfg := file.Guard
	if cfg == nil {
		return fmt.Errorf("--config %s: the file has no key guard", f.config)
	}
	for _, url := range urls {
		cfg.Servers = append(cfg.Servers, guard.Config{URL: url})
	}
	mistakes := f.override(cfg, &file.Log)
	if len(cfg.Servers) == 0 {
		mistakes = append(mistakes, errors.New("no server named, expected one such as postgres://spillgate@host/database"))
		return errors.Join(mistakes...)
	}
	if len(mistakes) == 0 {
		mistakes = f.missing(cfg.Check())
	}
	return errors.Join(mistakes...)
}

// missing returns the mistakes of a configuration, with the names of flags where there is no file.
func (f *guardFlags) missing(all []guard.Mistake) (mistakes []error) {
	said := map[string]bool{} // what a flag says is wrong for all servers, and said once
	for _, m := range all {
		var err error = m
		if f.config == "" {
			err = typed(m)
		}
		if !said[err.Error()] {
			mistakes = append(mistakes, err)
		}
		said[err.Error()] = true
	}
	return mistakes
}

// typed returns a mistake as one of the command line: in the URL of a server, or in a flag.
func typed(m guard.Mistake) error {
	server, field, _ := strings.Cut(m.Field, "].")
	if field == "" {
		server, field = "", m.Field
	}
	key, place, _ := strings.Cut(field, "[")
	key, under, _ := strings.Cut(key, ".")
	switch {
	case key == "servers":
		return m
	case key == "url" || key == "name":
		n, _ := strconv.Atoi(strings.TrimPrefix(server, "servers["))
		return fmt.Errorf("URL %d: %s, expected %s", n+1, cmp.Or(m.Value, "empty"), m.Want)
	case m.Value == "":
		return fmt.Errorf("--%s is missing, expected %s", key, m.Want)
	}
	if _, after, ok := strings.Cut(place, "]."); ok {
		under = after
	}
	if under != "" {
		under += "="
	}
	return fmt.Errorf("--%s %s%s: expected %s", strings.ReplaceAll(key, "_", "-"), under, m.Value, m.Want)
}

// override puts the flags into cfg and returns what cannot be read.
func (f *guardFlags) override(cfg *guard.SetConfig, log *config.Log) (mistakes []error) {
	replace(&cfg.Admin, f.admin)
	replace(&cfg.Audit, f.audit)
	duration := func(flag, value string) (d time.Duration) {
		if value == "" {
			return 0
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			mistakes = append(mistakes, fmt.Errorf("%s %q: expected a duration such as 500ms", flag, value))
		}
		return d
	}
	rules := func(flag string, texts []string) (all []guard.Rule) {
		for _, text := range texts {
			r, err := parseRule(text)
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s %q: %w", flag, text, err))
			}
			all = append(all, r)
		}
		return all
	}
	slo, period := duration("--slo", f.slo), duration("--period", f.period)
	mode, known := culprit.ParseMode(f.mode)
	if f.mode != "" && !known {
		mistakes = append(mistakes, fmt.Errorf("--mode %q: expected off, monitor or enforce", f.mode))
	}
	allow, deny, background := rules("--allow", f.allow), rules("--deny", f.deny), rules("--background", f.background)
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		if slo != 0 {
			s.Objective = slo
		}
		if period != 0 {
			s.Period = period
		}
		if f.mode != "" {
			s.Mode = mode
		}
		replace(&s.KillSwitch, f.killSwitch)
		replace(&s.PasswordFile, f.passwordFile)
		s.ShowStatements = s.ShowStatements || f.showStatements
		s.Rules.Allow = append(s.Rules.Allow, allow...)
		s.Rules.Deny = append(s.Rules.Deny, deny...)
		s.Rules.Background = append(s.Rules.Background, background...)
	}
	return append(mistakes, f.logs.override(log)...)
}

// parseRule reads "user=etl,kind=backup".
func parseRule(text string) (r guard.Rule, err error) {
	fields := map[string]*string{"user": &r.User, "application": &r.Application, "database": &r.Database, "fingerprint": &r.Fingerprint, "kind": &r.Kind}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		to := fields[strings.TrimSpace(name)]
		if !ok || to == nil || value == "" {
			return r, errors.New("expected user=, application=, database=, fingerprint= or kind=, with commas between them")
		}
		*to = value
	}
	return r, nil
}
