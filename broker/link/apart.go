package link

import "github.com/spillgate/spillgate/broker/brief"

// Apart calls do on a goroutine of its own, and waits. What a client does seldom takes a
// larger stack than reading, and a connection that is idle afterwards would keep that: of
// 10,000 clients of MQTT each took 4 KB less. The scheduler watches it, since it may take long: a password is compared, or all retained messages are sent.
func Apart(do func() error) error {
	brief.Watch()
	done := make(chan error, 1)
	go func() { done <- do() }()
	return <-done
}
