package credit

// list is a doubly linked list threaded through one of the link pairs of its
// clients, so that joining and leaving cost no allocation. which picks the
// pair; a client is in at most one list per pair.
type list struct {
	which      int
	head, tail *Client
	len        int
}

// The link pairs of a Client.
const (
	linkDrained = iota // hungry or idle, never both
	linkHeard          // least recently heard first
	linkDirty          // a grant waits to be sent
	numLinks
)

type link struct {
	prev, next *Client
	in         *list
}

func (l *list) pushBack(c *Client) {
	k := &c.links[l.which]
	k.prev, k.next, k.in = l.tail, nil, l
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.links[l.which].next = c
	}
	l.tail = c
	l.len++
}

func (l *list) remove(c *Client) {
	k := &c.links[l.which]
	if k.in != l {
		return
	}
	if k.prev == nil {
		l.head = k.next
	} else {
		k.prev.links[l.which].next = k.next
	}
	if k.next == nil {
		l.tail = k.prev
	} else {
		k.next.links[l.which].prev = k.prev
	}
	*k = link{}
	l.len--
}
