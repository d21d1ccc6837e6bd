package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/mapped"
	"github.com/spillgate/spillgate/guard/rest"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
)

// What is asked at every look.
const (
	tasksPath = "/_tasks?actions=indices:data/*,indices:admin/*,cluster:admin/snapshot/*"
	statsPath = "/_nodes/stats/thread_pool,jvm,process,breaker,indices/search?filter_path=_nodes,nodes.*.thread_pool.search,nodes.*.thread_pool.write,nodes.*.thread_pool.get," +
		"nodes.*.indices.search.query_total,nodes.*.indices.search.request.took.total,nodes.*.jvm.gc,nodes.*.process.cpu,nodes.*.breakers.*.tripped"
	nodesPath = "/_nodes/os?filter_path=nodes.*.version,nodes.*.build_flavor,nodes.*.os.allocated_processors"
	alivePath = "/_nodes/_local/os?filter_path=_nodes.total"
)

// detailRate is how many bytes of detailed lists of tasks are asked for per second. The server writes each query
// down for each of them, of a few queries with thousands of terms megabytes: at some 100 MB/s this is 4 % of a
// processor.
const detailRate = 4 << 20

// detailAgain is for how long no detailed list is asked for after one that failed: a few looks without texts, which tell of tasks all the same.
const detailAgain = time.Second

// nodesAgain is for how long nodes are not asked again what they have: one that is counted may never describe itself, or the answer
// may fail. Until then it counts as one of one processor.
const nodesAgain = 10 * time.Second

// Source is a cluster, or one node of it. It is for one goroutine. The methods do what those of guard.Source do.
type Source interface {
	Look(ctx context.Context) (*track.Look, error)
	Act(ctx context.Context, task uint64, step culprit.Step) (bool, error)
	Alive(ctx context.Context) error
	Close()
}

// cluster is a Source that asks through the public interface.
type cluster struct {
	target *rest.Target
	rest.Pair
	builder *builder
	in      input
	due     time.Time     // from when on a detailed list may be asked for
	asked   time.Time     // when nodes were asked last what they have
	absent  mapped.Absent // the task file that it does not read
}

// Check reports what is wrong with a URL, without its password.
func Check(text string) error {
	_, _, err := parse(text)
	return err
}

// parse reads opensearch://user:password@host:port?tls=…, or elasticsearch://…, and what tasks=… says: the path of a task file,
// "" for none.
func parse(text string) (t *rest.Target, tasks string, err error) {
	const expected = "opensearch://user@host:port, or elasticsearch://user@host:port"
	text, tasks = mapped.Told(text)
	t, err = rest.Parse("search", text, "9200", expected, "opensearch", "elasticsearch")
	if err == nil && t.Path != "" {
		err = fmt.Errorf("search: the URL has the path %q, expected %s", t.Path, expected)
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
	file, absent := mapped.Existing(tasks, objective)
	if file != nil {
		return mapped.NewSource("search", file, describe), nil
	}
	s := &cluster{target: t, Pair: rest.Both(t), builder: newBuilder(), absent: absent}
	ctx, cancel := context.WithTimeout(ctx, rest.OpenTimeout)
	defer cancel()
	if err := s.learn(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("search: %w", err)
	}
	return s, nil
}

// learn asks what does not change while connected.
func (s *cluster) learn(ctx context.Context) error {
	body, err := s.Looks.Do(ctx, http.MethodGet, nodesPath, rightNodes)
	if err != nil {
		return err
	}
	nodes, err := decodeNodes(body)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := n.recognise(s.target.Scheme == "elasticsearch"); err != nil {
			return err
		}
	}
	s.describe(nodes)
	// Nothing has this action: only the right is asked for.
	_, err = s.Acts.Do(ctx, http.MethodPost, "/_tasks/_cancel?actions=spillgate:none", rightCancel)
	if s.in.mayCancel = err == nil; rest.Status(err) == http.StatusForbidden {
		err = nil
	}
	return err
}

// describe enters how many processors nodes have.
func (s *cluster) describe(nodes map[string]nodeInfo) {
	s.in.processors = map[string]int{}
	for id, n := range nodes {
		s.in.processors[id] = max(n.OS.Processors, 1)
	}
}

// newcomers asks again what nodes have, if one of those that were counted was not there then, but every nodesAgain at most.
func (s *cluster) newcomers(ctx context.Context) error {
	known := true
	for id := range s.in.nodes {
		if _, ok := s.in.processors[id]; !ok {
			known = false
		}
	}
	if known || time.Since(s.asked) < nodesAgain {
		return nil
	}
	s.asked = time.Now()
	body, err := s.Looks.Do(ctx, http.MethodGet, nodesPath, rightNodes)
	if err != nil {
		return err
	}
	nodes, err := decodeNodes(body)
	if err == nil {
		s.describe(nodes)
	}
	return err
}

// recognise checks that a node is of the kind that the URL says.
func (n *nodeInfo) recognise(elastic bool) error {
	if n.Version == "" {
		return errors.New("the server does not tell the version of its nodes as OpenSearch and Elasticsearch do")
	}
	if (n.Flavor != "") != elastic {
		return fmt.Errorf("the server is %s %s, expected another: use %s://", named(!elastic), n.Version, strings.ToLower(named(!elastic)))
	}
	return nil
}

func named(elastic bool) string {
	if elastic {
		return "Elasticsearch"
	}
	return "OpenSearch"
}

// Look looks once. An error means that a view failed; unless it is track.ErrLate, the source is to be closed and
// opened again.
func (s *cluster) Look(ctx context.Context) (*track.Look, error) {
	counted := make(chan error, 1)
	go func() { counted <- s.count(ctx) }() // at the same time: each answer of a node in trouble takes long
	err := s.list(ctx)
	if e := <-counted; e != nil {
		return nil, fmt.Errorf("search: _nodes/stats: %w", rest.Late(e))
	}
	if err != nil {
		return nil, fmt.Errorf("search: _tasks: %w", rest.Late(err))
	}
	if err := s.newcomers(ctx); err != nil {
		return nil, fmt.Errorf("search: _nodes: %w", rest.Late(err))
	}
	l := s.builder.build(&s.in)
	if note := s.absent.Note(); note != "" {
		l.Notes = append(l.Notes, note)
	}
	return l, nil
}

// count asks what the nodes count.
func (s *cluster) count(ctx context.Context) error {
	body, err := s.Looks.Do(ctx, http.MethodGet, statsPath, rightStats)
	if err == nil {
		s.in.nodes, err = decodeStats(body)
	}
	return err
}

// list lists the tasks, in detail if that is not too dear.
func (s *cluster) list(ctx context.Context) error {
	path, began := tasksPath, time.Now()
	s.in.detailed = !began.Before(s.due)
	if s.in.detailed {
		path += "&detailed=true"
	}
	body, err := s.Looks.Do(ctx, http.MethodGet, path, rightTasks)
	if s.in.at = live.Now(); s.in.detailed {
		s.due = began.Add(time.Duration(len(body)) * time.Second / detailRate)
	}
	if err != nil {
		if s.in.detailed { // it may have been too large to be answered in time
			s.due = time.Now().Add(detailAgain)
		}
		return err
	}
	s.in.tasks, err = decodeTasks(body)
	return err
}

// Act does a step to a task of the last look. It reports false if the task was gone. The interface
// takes no condition, so start and action are compared right before; a number is used again only after
// its node was restarted.
func (s *cluster) Act(ctx context.Context, task uint64, step culprit.Step) (bool, error) {
	goal, ok := s.builder.targets[task]
	if !ok {
		return false, nil
	}
	if step != culprit.Statement {
		return false, fmt.Errorf("search: there is no step %v, expected statement", step)
	}
	ctx, cancel := context.WithTimeout(ctx, rest.Timeout)
	defer cancel()
	path := "/_tasks/" + url.PathEscape(goal.name)
	body, err := s.Acts.Do(ctx, http.MethodGet, path, rightTask)
	switch {
	case rest.Status(err) == http.StatusNotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("search: the task before its cancel: %w", err)
	}
	if same, err := goal.is(body); err != nil || !same {
		return false, err
	}
	if body, err = s.Acts.Do(ctx, http.MethodPost, path+"/_cancel", rightCancel); err != nil {
		return false, fmt.Errorf("search: cancel: %w", err)
	}
	return goal.cancelled(body)
}

// is reports whether an answer shows the task, still at work.
func (g *goal) is(body []byte) (bool, error) {
	var v struct {
		Completed bool     `json:"completed"`
		Task      taskView `json:"task"`
	}
	if err := json.Unmarshal(body, &v); err != nil || v.Task.Start == nil || v.Task.ID == nil {
		return false, errors.New("search: the task before its cancel has another shape than expected; it is not cancelled")
	}
	return !v.Completed && v.Task.name() == g.name && *v.Task.Start == g.start && v.Task.Action == g.action, nil
}

// cancelled reads the answer to a cancel: it lists what is cancelled.
func (g *goal) cancelled(body []byte) (bool, error) {
	var v tasksView
	if err := json.Unmarshal(body, &v); err != nil {
		return false, fmt.Errorf("search: the answer to a cancel has another shape than expected: %w", err)
	}
	for _, n := range v.Nodes {
		if _, ok := n.Tasks[g.name]; ok {
			return true, nil
		}
	}
	for _, f := range append(v.TaskFailures, v.NodeFailures...) {
		if f.Cause.Type != "resource_not_found_exception" {
			return false, fmt.Errorf("search: cancel: %s %s", f.Reason, f.Cause.Reason)
		}
	}
	return false, nil
}

// Alive checks the connection that acts, and looks again for a task file, which a node makes as it starts.
func (s *cluster) Alive(ctx context.Context) error {
	if err := s.absent.Alive(); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	_, err := s.Acts.Do(ctx, http.MethodGet, alivePath, rightNodes)
	return err
}

// Setup returns a role with the rights that a guard needs and no other, for both servers.
func Setup(user string) string {
	quoted, _ := json.Marshal(user)
	rights := fmt.Sprintf("%q, %q, %q, %q, %q", rightTasks, rightTask, rightNodes, rightStats, rightCancel)
	return strings.Join([]string{
		"# A node with the plugin tracer/opensearch or tracer/elasticsearch needs no role: opensearch://127.0.0.1:9200?tasks=/run/spillgate/opensearch.tasks,",
		"# or elasticsearch://127.0.0.1:9200?tasks=/run/spillgate/elasticsearch.tasks",
		"# Least rights for spillgate guard. " + rightCancel + " is only needed for --mode enforce.",
		"# OpenSearch with its security plugin; make the user " + string(quoted) + " first:",
		"PUT _plugins/_security/api/roles/spillgate",
		`{"cluster_permissions": [` + strings.Replace(rights, rightTasks, rightTasks+"*", 1) + "]}",
		"PUT _plugins/_security/api/rolesmapping/spillgate",
		`{"users": [` + string(quoted) + "]}",
		"",
		"# Elasticsearch; then give the user " + string(quoted) + " the role spillgate:",
		"PUT _security/role/spillgate",
		`{"cluster": [` + strings.Replace(rights, rightTasks, rightTasks+"*", 1) + "]}",
		"",
	}, "\n")
}
