package search

import (
	"encoding/json"
	"fmt"
	"strings"
)

// mostTasks bounds how many tasks and parts of tasks a look may show.
const mostTasks = 1 << 15

// taskView is a task as both servers show it.
type taskView struct {
	Node        string            `json:"node"`
	ID          *int64            `json:"id"`
	Type        string            `json:"type"`
	Action      string            `json:"action"`
	Description string            `json:"description"`
	Start       *int64            `json:"start_time_in_millis"`
	Running     *int64            `json:"running_time_in_nanos"`
	Cancellable bool              `json:"cancellable"`
	Cancelled   bool              `json:"cancelled"`
	Parent      string            `json:"parent_task_id"`
	Headers     map[string]string `json:"headers"`
	Status      json.RawMessage   `json:"status"`
	// Resources is there with OpenSearch.
	Resources *struct {
		Total struct {
			CPU    int64 `json:"cpu_time_in_nanos"`
			Memory int64 `json:"memory_in_bytes"`
		} `json:"total"`
		Threads struct {
			Executions int64 `json:"thread_executions"`
			Active     int64 `json:"active_threads"`
		} `json:"thread_info"`
	} `json:"resource_stats"`
}

// name is what the server calls the task.
func (t *taskView) name() string { return fmt.Sprintf("%s:%d", t.Node, *t.ID) }

// failure is a part of an answer that is missing.
type failure struct {
	Node   string `json:"node_id"`
	Reason string `json:"reason"`
	Cause  struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	} `json:"caused_by"`
}

// tasksView is the answer of the task interface.
type tasksView struct {
	Nodes map[string]struct {
		Name  string              `json:"name"`
		Tasks map[string]taskView `json:"tasks"`
	} `json:"nodes"`
	NodeFailures []failure `json:"node_failures"`
	TaskFailures []failure `json:"task_failures"`
}

// measured reports whether the list shows a task that was measured: OpenSearch measures searches, unless it is told not
// to, and shows zeros for other tasks.
func (v *tasksView) measured() bool {
	for _, n := range v.Nodes {
		for name := range n.Tasks {
			if r := n.Tasks[name].Resources; r != nil && r.Threads.Executions > 0 {
				return true
			}
		}
	}
	return false
}

// decodeTasks reads a list of tasks. It refuses one that a node is missing from, because the
// tasks of that node did not end.
func decodeTasks(body []byte) (*tasksView, error) {
	var v tasksView
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("the list of tasks has another shape than expected: %w", err)
	}
	if v.Nodes == nil {
		return nil, fmt.Errorf("the list of tasks has no nodes: %.200s", body)
	}
	if len(v.NodeFailures) > 0 {
		f := v.NodeFailures[0]
		return nil, fmt.Errorf("%d nodes do not show their tasks; node %s: %s", len(v.NodeFailures), f.Node, f.Reason)
	}
	n := 0
	for node, all := range v.Nodes {
		if n += len(all.Tasks); n > mostTasks {
			return nil, fmt.Errorf("the cluster shows more than %d tasks", mostTasks)
		}
		for name, t := range all.Tasks {
			if t.ID == nil || t.Start == nil || t.Running == nil || t.Action == "" || t.Node != node || t.name() != name {
				return nil, fmt.Errorf("task %.100q lacks node, id, action, start_time_in_millis or running_time_in_nanos, or contradicts its name", name)
			}
		}
	}
	return &v, nil
}

// poolView is a thread pool of a node.
type poolView struct {
	Queue     int64 `json:"queue"`
	Active    int64 `json:"active"`
	Completed int64 `json:"completed"`
	Rejected  int64 `json:"rejected"`
}

// nodeView is what a node counts.
type nodeView struct {
	Pools   map[string]poolView `json:"thread_pool"`
	Indices struct {
		Search struct {
			Shards  int64 `json:"query_total"`
			Request struct {
				Took struct {
					Total int64 `json:"total"`
				} `json:"took"`
			} `json:"request"`
		} `json:"search"`
	} `json:"indices"`
	JVM struct {
		GC struct {
			Collectors map[string]struct {
				Millis int64 `json:"collection_time_in_millis"`
			} `json:"collectors"`
		} `json:"gc"`
	} `json:"jvm"`
	Process struct {
		CPU struct {
			Millis int64 `json:"total_in_millis"`
		} `json:"cpu"`
	} `json:"process"`
	Breakers map[string]struct {
		Tripped int64 `json:"tripped"`
	} `json:"breakers"`
}

// collecting is the time for which a node's collectors have stopped it. What they do beside the
// work is in the processor time.
func (n *nodeView) collecting() (millis int64) {
	for name, c := range n.JVM.GC.Collectors {
		if !strings.Contains(strings.ToLower(name), "concurrent") {
			millis += c.Millis
		}
	}
	return millis
}

// decodeStats reads what the nodes count.
func decodeStats(body []byte) (map[string]nodeView, error) {
	var v struct {
		Nodes map[string]nodeView `json:"nodes"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("the nodes' statistics have another shape than expected: %w", err)
	}
	if len(v.Nodes) == 0 {
		return nil, fmt.Errorf("the statistics show no node: %.200s", body)
	}
	for id, n := range v.Nodes {
		if _, ok := n.Pools[poolNames[searchPool]]; !ok {
			return nil, fmt.Errorf("the statistics of node %.60q show no thread pool search", id)
		}
	}
	return v.Nodes, nil
}

// nodeInfo is what does not change of a node.
type nodeInfo struct {
	Version string `json:"version"`
	// Flavor is there with Elasticsearch.
	Flavor string `json:"build_flavor"`
	OS     struct {
		Processors int `json:"allocated_processors"`
	} `json:"os"`
}

// decodeNodes reads what nodes tell of themselves.
func decodeNodes(body []byte) (map[string]nodeInfo, error) {
	var v struct {
		Nodes map[string]nodeInfo `json:"nodes"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("the nodes' description has another shape than expected: %w", err)
	}
	if len(v.Nodes) == 0 {
		return nil, fmt.Errorf("the server describes no node: %.200s", body)
	}
	return v.Nodes, nil
}

// progress reads how many documents a by-query task has dealt with, of how many. Other tasks have
// other statuses, or none.
func progress(status json.RawMessage) (done, total uint64) {
	var s struct {
		Total     int64 `json:"total"`
		Created   int64 `json:"created"`
		Updated   int64 `json:"updated"`
		Deleted   int64 `json:"deleted"`
		Noops     int64 `json:"noops"`
		Conflicts int64 `json:"version_conflicts"`
	}
	if len(status) == 0 || json.Unmarshal(status, &s) != nil || s.Total <= 0 {
		return 0, 0
	}
	return uint64(max(s.Created+s.Updated+s.Deleted+s.Noops+s.Conflicts, 0)), uint64(s.Total)
}
