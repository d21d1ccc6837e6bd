package search

// Rights of the role, as both servers name them.
const (
	rightTasks  = "cluster:monitor/tasks/lists"
	rightTask   = "cluster:monitor/task/get"
	rightStats  = "cluster:monitor/nodes/stats"
	rightNodes  = "cluster:monitor/nodes/info"
	rightCancel = "cluster:admin/tasks/cancel"
)
