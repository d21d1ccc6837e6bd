package credit

// list is a doubly linked list threaded through one of the link pairs of its
// clients, so that joining and leaving cost no allocation. which picks the
// pair; a client is in at most one list per pair, and knows it by its mark,
// which is not 0.
type list struct {
	which, mark uint8
	head, tail  *Client
	len         int
}

// The link pairs of a Client.
const (
	linkDrained = iota // hungry, idle, asking or absent, never two
	linkHeard          // least recently heard first
	linkDirty          // a grant waits to be sent
	numLinks
)

type link struct{ prev, next *Client }

func (l *list) pushBack(c *Client) {
	k := &c.links[l.which]
	k.prev, k.next = l.tail, nil
	c.in[l.which] = l.mark
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.links[l.which].next = c
	}
	l.tail = c
	l.len++
}

func (l *list) remove(c *Client) {
	if c.in[l.which] != l.mark {
		return
	}
	k := &c.links[l.which]
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
	c.in[l.which] = 0
	l.len--
}

// renew moves c, which is in the list, to its end.
func (l *list) renew(c *Client) {
	l.remove(c)
	l.pushBack(c)
}
