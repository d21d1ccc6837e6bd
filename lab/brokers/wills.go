package brokers

import (
	"context"
	"fmt"
	"net"

	"github.com/eclipse/paho.golang/paho"
)

// mortals is how many clients with a will of each QoS, and half of them with a session that is stored, are connected to a node that is killed.
const mortals = 4

// willTopic is where their wills go.
const willTopic = "wills"

// heir connects the client that gets the wills.
func (p *press) heir(ctx context.Context) error {
	c, err := p.connect(ctx, "heir", 0, p.inherited)
	if err != nil {
		return err
	}
	_, err = c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: willTopic, QoS: 2}}})
	return err
}

// bequeath connects clients with a will to a node, which do not come back.
func (p *press) bequeath(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, enterTime)
	defer cancel()
	for i := range 3 * mortals {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.cfg.Listen[0])
		if err != nil {
			return err
		}
		id := fmt.Sprintf("mortal%d", len(p.wills))
		lives, delay := uint32(i%2*600), uint32(1)
		c := paho.NewClient(paho.ClientConfig{ClientID: id, Conn: nc, PacketTimeout: answerTime})
		if _, err := c.Connect(ctx, &paho.Connect{ClientID: id, KeepAlive: 60, CleanStart: true, Properties: &paho.ConnectProperties{SessionExpiryInterval: &lives},
			WillMessage: &paho.WillMessage{Topic: willTopic, Payload: []byte(id), QoS: byte(i % 3)}, WillProperties: &paho.WillProperties{WillDelayInterval: &delay}}); err != nil {
			return err
		}
		p.wills = append(p.wills, id)
	}
	return nil
}

// executed returns which wills never came, and which came more than once.
func (p *press) executed(ctx context.Context) (lost, twice []string) {
	_ = p.c.await(ctx, "the wills have come", restTime, func(context.Context) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		lost, twice = nil, nil
		for i, id := range p.wills {
			which := fmt.Sprintf("%s, QoS %d, kill %d", id, i%3, i/(3*mortals)+1)
			switch n := p.inherited[id]; {
			case n == 0:
				lost = append(lost, which)
			case n > 1:
				twice = append(twice, which)
			}
		}
		return len(lost) == 0
	})
	return lost, twice
}
