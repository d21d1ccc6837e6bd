package guard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/apache"
	"github.com/spillgate/spillgate/guard/mariadb"
	"github.com/spillgate/spillgate/guard/phpfpm"
	"github.com/spillgate/spillgate/guard/postgres"
	"github.com/spillgate/spillgate/guard/search"
	"github.com/spillgate/spillgate/guard/solr"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// Source is a server as its adapter sees it. It is for one goroutine.
type Source interface {
	// Look looks once. An error means that a view failed, hung or has another shape;
	// the source must then be closed, unless the error is track.ErrLate. The Look is valid until the next one.
	Look(ctx context.Context) (*track.Look, error)
	// Act does a step to a task of the last look, and reports false if that task was
	// gone or had become another.
	Act(ctx context.Context, task uint64, step culprit.Step) (bool, error)
	// Alive checks the connection that Act uses.
	Alive(ctx context.Context) error
	// Close ends the connections.
	Close()
}

// keeper is a Source whose server can itself keep tasks of a kind from beginning.
type keeper interface {
	// KeepOut has the server refuse tasks of a kind for a time from now on.
	KeepOut(ctx context.Context, kind uint64, d time.Duration) error
}

// scheme is a kind of server.
type scheme struct {
	open  func(ctx context.Context, url string, objective time.Duration) (Source, error)
	check func(url string) error
	setup func(role string) string
}

func openPostgres(ctx context.Context, url string, objective time.Duration) (Source, error) {
	s, err := postgres.Open(ctx, url, objective)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func checkPostgres(url string) error { _, err := postgres.Parse(url); return err }

func openMariaDB(ctx context.Context, url string, objective time.Duration) (Source, error) {
	s, err := mariadb.Open(ctx, url, objective)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openApache(ctx context.Context, url string, objective time.Duration) (Source, error) {
	s, err := apache.Open(ctx, url, objective)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openSearch(ctx context.Context, url string, objective time.Duration) (Source, error) {
	s, err := search.Open(ctx, url, objective)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openPHPFPM(ctx context.Context, url string, objective time.Duration) (Source, error) {
	s, err := phpfpm.Open(ctx, url, objective)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openSolr(ctx context.Context, url string, objective time.Duration) (Source, error) {
	s, err := solr.Open(ctx, url, objective)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// schemeOf returns what a URL's scheme stands for.
func schemeOf(text string) (scheme, error) {
	name, _, ok := strings.Cut(text, "://")
	switch name {
	case "postgres", "postgresql":
		return scheme{openPostgres, checkPostgres, postgres.Setup}, nil
	case "mariadb", "mysql":
		return scheme{openMariaDB, mariadb.Check, mariadb.Setup}, nil
	case "apache":
		return scheme{openApache, apache.Check, apache.Setup}, nil
	case "php-fpm":
		return scheme{openPHPFPM, phpfpm.Check, phpfpm.Setup}, nil
	case "opensearch", "elasticsearch":
		return scheme{openSearch, search.Check, search.Setup}, nil
	case "solr":
		return scheme{openSolr, solr.Check, solr.Setup}, nil
	}
	if !ok {
		name = ""
	}
	return scheme{}, fmt.Errorf("a server of scheme %q, expected postgres://, mariadb://, mysql://, apache://, php-fpm://, opensearch://, elasticsearch:// or solr://", name)
}

// Open connects to the server at a URL as a guard does. The objective tells short
// statements from long ones.
func Open(ctx context.Context, url string, objective time.Duration) (Source, error) {
	s, err := schemeOf(url)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, url, objective)
}

// Check reports what is wrong with the URL of a server, without its password.
func Check(text string) error {
	s, err := schemeOf(text)
	if err != nil {
		return err
	}
	return s.check(text)
}

// Setup returns the statements that make a role with the least rights that a guard of
// the server at a URL needs. The role is that of the URL, "spillgate" without one.
func Setup(text string) (string, error) {
	s, err := schemeOf(text)
	if err != nil {
		return "", err
	}
	role := "spillgate"
	if u, err := url.Parse(text); err == nil && u.User.Username() != "" {
		role = u.User.Username()
	}
	return s.setup(role), nil
}

// Label returns the name of a server in logs and metrics: its URL without user,
// password and parameters.
func Label(text string) string {
	u, err := url.Parse(text)
	// A password with a /, ? or # that is not escaped ends the host too early, and the rest of it
	// is taken for a path: the @ behind it gives that away.
	if err != nil || u.User == nil && strings.Contains(text, "@") {
		name, _, _ := strings.Cut(text, "://")
		return name + "://(unreadable)"
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")
}

// withPassword puts the password of a file into a URL.
func withPassword(text, file string) (string, error) {
	if file == "" {
		return text, nil
	}
	password, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("guard: the password: %w", err)
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("guard: the URL cannot be read, so no password can be put into it")
	}
	u.User = url.UserPassword(u.User.Username(), strings.TrimSpace(string(password)))
	return u.String(), nil
}
