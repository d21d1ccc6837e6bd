package solr

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/mapped"
	"github.com/spillgate/spillgate/guard/rest"
	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
)

// Rights of the role, as Solr's rule-based authorization names them.
const (
	rightList   = "metrics-read"
	rightCancel = "config-edit"
)

// handler is the path of the handler below the core.
const handler = "/spillgate"

// Source is a core. It is for one goroutine. The methods do what those of guard.Source do.
type Source interface {
	Look(ctx context.Context) (*track.Look, error)
	Act(ctx context.Context, task uint64, step culprit.Step) (bool, error)
	// KeepOut has the core refuse queries of a kind for a time from now on.
	KeepOut(ctx context.Context, kind uint64, d time.Duration) error
	Alive(ctx context.Context) error
	Close()
}

// core is a Source that asks the handler.
type core struct {
	rest.Pair
	path    string
	builder *builder
	absent  mapped.Absent // the task file that it does not read
}

// Check reports what is wrong with a URL, without its password.
func Check(text string) error {
	_, _, err := parse(text)
	return err
}

// parse reads solr://user:password@host:port/solr/core?tls=…, and what tasks=… says: the path of a task file, "" for none.
func parse(text string) (t *rest.Target, tasks string, err error) {
	const expected = "solr://user@host:port/solr/core"
	text, tasks = mapped.Told(text)
	t, err = rest.Parse("solr", text, "8983", expected, "solr")
	if err == nil && strings.Count(t.Path, "/") != 2 {
		err = fmt.Errorf("solr: the URL has the path %q, expected %s", t.Path, expected)
	}
	return t, tasks, err
}

// Open reads the task file of the URL, if it is there. Otherwise it connects twice: to look, and to act. The objective
// tells late requests in a task file.
func Open(ctx context.Context, text string, objective time.Duration) (Source, error) {
	t, tasks, err := parse(text)
	if err != nil {
		return nil, err
	}
	name := t.Path[strings.LastIndexByte(t.Path, '/')+1:]
	file, absent := mapped.Existing(tasks, objective)
	if file != nil {
		return mapped.NewSource("solr", file, func(kind uint64, text string) track.Session {
			return track.Session{Database: name, Statement: statement.Statement{Fingerprint: kind, Text: text, Class: statement.Select}, State: "query", Nameless: text == ""}
		}), nil
	}
	s := &core{Pair: rest.Both(t), path: t.Path + handler, builder: newBuilder(name), absent: absent}
	opening, cancel := context.WithTimeout(ctx, rest.OpenTimeout)
	defer cancel()
	if _, err = s.list(opening, s.Looks); err == nil {
		_, err = s.list(opening, s.Acts)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// list asks for the queries.
func (s *core) list(ctx context.Context, c *rest.Client) (*view, error) {
	body, err := c.Do(ctx, http.MethodGet, s.path+"?wt=json", rightList)
	if rest.Status(err) == http.StatusNotFound {
		return nil, fmt.Errorf("solr: there is no %s, expected the core with the handlers that --print-setup shows: %w", s.path, err)
	}
	var v *view
	if err == nil {
		v, err = decodeQueries(body)
	}
	if err != nil {
		return nil, fmt.Errorf("solr: %s: %w", s.path, err)
	}
	return v, nil
}

// Look looks once. An error means that the view failed; the source is to be closed and opened again.
func (s *core) Look(ctx context.Context) (*track.Look, error) {
	v, err := s.list(ctx, s.Looks)
	if err != nil {
		return nil, rest.Late(err)
	}
	l := s.builder.build(live.Now(), v)
	if note := s.absent.Note(); note != "" {
		l.Notes = append(l.Notes, note)
	}
	return l, nil
}

// Act does a step to a query of the last look. It reports false if the query was gone.
func (s *core) Act(ctx context.Context, task uint64, step culprit.Step) (bool, error) {
	goal, ok := s.builder.targets[task]
	if !ok {
		return false, nil
	}
	if step != culprit.Statement {
		return false, fmt.Errorf("solr: there is no step %v, expected statement", step)
	}
	body, err := s.Acts.Do(ctx, http.MethodPost, fmt.Sprintf("%s?wt=json&boot=%d&cancel=%d", s.path, goal.boot, goal.number), rightCancel)
	var done bool
	if err == nil {
		done, err = decodeCancel(body)
	}
	if err != nil {
		return false, fmt.Errorf("solr: cancel: %w", err)
	}
	return done, nil
}

// KeepOut has the core refuse queries of a kind for a time from now on.
func (s *core) KeepOut(ctx context.Context, kind uint64, d time.Duration) error {
	body, err := s.Acts.Do(ctx, http.MethodPost, fmt.Sprintf("%s?wt=json&keep_out=%x&millis=%d", s.path, kind, d.Milliseconds()), rightCancel)
	if err == nil {
		err = decodeKeepOut(body)
	}
	if err != nil {
		return fmt.Errorf("solr: keep out: %w", err)
	}
	return nil
}

// Alive checks the connection that acts, and looks again for a task file, which a core makes as it is loaded.
func (s *core) Alive(ctx context.Context) error {
	if err := s.absent.Alive(); err != nil {
		return fmt.Errorf("solr: %w", err)
	}
	_, err := s.list(ctx, s.Acts)
	return err
}

// Setup returns the handlers that a core needs, and a role with the rights that a guard needs and no other.
func Setup(user string) string {
	quoted, _ := json.Marshal(user)
	return strings.Join([]string{
		"<!-- solrconfig.xml of each core that is guarded, with spillgate-solr.jar in its lib directory; the first takes the place of",
		"     the search handler. slots bounds how many queries run at once, 0 is no bound. With tasks, a guard that runs on the same machine,",
		"     as the same user and with ?tasks=/run/spillgate/solr.CORE.tasks, needs no answer of Solr. Solr puts the name of each core in: cores of",
		"     one set of configuration must not share a file. The last lets cancelled queries end sooner. -->",
		`<requestHandler name="/select" class="spillgate.solr.WatchedSearchHandler"><int name="slots">0</int><str name="tasks">/run/spillgate/solr.${solr.core.name}.tasks</str></requestHandler>`,
		`<requestHandler name="/spillgate" class="spillgate.solr.QueriesHandler"/>`,
		`<indexReaderFactory name="IndexReaderFactory" class="spillgate.solr.CancellableReaderFactory"/>`,
		"",
		"<!-- security.json, with the rule-based authorization; " + rightCancel + " is only needed for the mode enforce:",
		`     "user-role": {` + string(quoted) + `: "spillgate"},`,
		`     "permissions": [{"name": "` + rightList + `", "role": "spillgate"}, {"name": "` + rightCancel + `", "role": "spillgate"}] -->`,
		"",
	}, "\n")
}
