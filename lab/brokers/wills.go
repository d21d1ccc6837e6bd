package brokers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// mortals is how many clients with a will of each QoS, and half of them with a session that is stored, are connected to a node that is killed.
const mortals = 4

// willTopic is where their wills go.
const willTopic = "wills"

// mortal is a client whose node is killed soon after an instant.
type mortal struct {
	id   string
	qos  byte
	kill int
	at   time.Time
}

func (m mortal) String() string { return fmt.Sprintf("%s, QoS %d, kill %d", m.id, m.qos, m.kill) }

// heir connects the client that gets the wills, and notes when it is cut off: what is published with QoS 0 then it need not get.
func (p *press) heir(ctx context.Context) error {
	c, err := p.connect(ctx, "heir", 0, p.inherited, func(cfg *autopaho.ClientConfig) {
		cfg.OnConnectionDown = func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.cutOff = append(p.cutOff, time.Now())
			return true
		}
	})
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
		m := mortal{fmt.Sprintf("mortal%d", len(p.wills)), byte(i % 3), len(p.wills)/(3*mortals) + 1, time.Now()}
		lives, delay := uint32(i%2*600), uint32(1)
		c := paho.NewClient(paho.ClientConfig{ClientID: m.id, Conn: nc, PacketTimeout: answerTime})
		if _, err := c.Connect(ctx, &paho.Connect{ClientID: m.id, KeepAlive: 60, CleanStart: true, Properties: &paho.ConnectProperties{SessionExpiryInterval: &lives},
			WillMessage: &paho.WillMessage{Topic: willTopic, Payload: []byte(m.id), QoS: m.qos}, WillProperties: &paho.WillProperties{WillDelayInterval: &delay}}); err != nil {
			return err
		}
		p.wills = append(p.wills, m)
	}
	return nil
}

// executed returns which wills never came, which came more than once, and which may not have come: of QoS 0, published while the heir may have been
// connected to no node.
func (p *press) executed(ctx context.Context) (lost, twice, missed []string) {
	_ = p.c.await(ctx, "the wills have come", restTime, func(context.Context) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		lost, twice, missed = nil, nil, nil
		for _, m := range p.wills {
			away := slices.ContainsFunc(p.cutOff, func(t time.Time) bool { return t.After(m.at) && t.Before(m.at.Add(restTime)) })
			switch n := p.inherited[m.id]; {
			case n == 0 && m.qos == 0 && away:
				missed = append(missed, m.String())
			case n == 0:
				lost = append(lost, m.String())
			case n > 1:
				twice = append(twice, m.String())
			}
		}
		return len(lost)+len(missed) == 0
	})
	return lost, twice, missed
}
