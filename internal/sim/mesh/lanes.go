package mesh

// The lanes of the engine: events that mostly are scheduled in the order of their
// instants, because the same time passes before each. A deadline that passes while a
// request is over is an event as well, so the deadlines of fast requests would otherwise
// fill the heap.
const (
	laneMessage = iota // what travels
	laneNow            // what happens at once, but later
	laneWork           // ends of work that takes a constant time
	laneChore          // ends of messages that workers handle
	laneDeadline
	numLanes = laneDeadline + deadlineLanes
)

// deadlineLanes is over how many lanes the deadlines of workflows are spread: budgets
// of different lengths would not be in order in one.
const deadlineLanes = 4
