package credit

// A grant costs a message part on each side, and most say what the client knows already:
//
//	reply ── asked for, the first, or refused? ── smaller than told, or found in the
//	           dirty list? ── larger by more than an eighth? ── wanted, and larger at all?
//	           ── the sixteenth? ──▶ carries the grant; else it carries none
//
// What the client was told last is never more than an eighth below its window, and above it only until the
// next reply. A reply may be lost, with what it told; so a grant is said again after some replies, changed
// or not.

const (
	// tellEvery is after how many replies a grant is told again: a lost one is made up for before the
	// client has used a small window twice, and a sixteenth of the cost is left.
	tellEvery = 16
	// tellGrowth is the part of its window by which a client may be told too little. A growth by less
	// than that waits for a request that waits for it.
	tellGrowth = 8
)

// telling is what the replies to a client told it.
type telling struct {
	window int32
	since  uint8 // replies without a grant; tellEvery: it was told nothing that counts
}

// untold is what a client was told whose next reply carries a grant in any case.
func untold() telling { return telling{since: tellEvery} }

// Tells reports whether the reply for which OnReply was called last for c carries the
// grant. asked says that it must: the request asked for it, or was refused. part is what the
// grant says of a workflow's part, which counts only while requests wait.
func (p *Pool) Tells(c *Client, asked, part bool) bool {
	t := &c.told
	w, told := c.window, int(t.window)
	wanted := c.demand > 0 || c.pending+1 >= told
	if !asked && t.since < tellEvery-1 && w >= told && w-told <= told/tellGrowth && !(wanted && w > told) && !(part && c.demand > 0) {
		t.since++
		return false
	}
	*t = telling{window: int32(w)}
	return true
}

// steady returns w or, while no client waits for credits, c's window, if w is smaller by one or by no more
// than a growth that a client need not be told: w follows the number of its requests that happen to be here.
// Without this rule, ten clients without overload were told a smaller window with a quarter of all replies.
func (p *Pool) steady(c *Client, w int) int {
	if p.demand == 0 && !p.cfg.NoSpeculation && w < c.window && c.window-w <= max(c.window/tellGrowth, 1) {
		return c.window
	}
	return w
}
