package link

// Apart calls do on a goroutine of its own, and waits. What a client does seldom takes a
// larger stack than reading, and a connection that is idle afterwards would keep that: of
// 10,000 clients of MQTT each took 4 KB less.
func Apart(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return <-done
}
