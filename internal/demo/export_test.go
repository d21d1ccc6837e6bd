package demo

import "context"

// PlayAct plays one act of the demo alone, at the capacity that the services should have, and ends as Play does.
func PlayAct(ctx context.Context, cfg Config, act Scene) (State, error) {
	d := newDirector(cfg)
	c, err := newCrew(cfg.Command)
	if err == nil {
		err = map[Scene]func() error{
			Sharing:  func() error { return d.tenants(ctx, c, cfg.Plan.Nominal()) },
			Checkout: func() error { return d.checkout(ctx, c) },
			Seizing:  func() error { return d.culprit(ctx, c) },
			Flooding: func() error { return d.flood(ctx, c) },
		}[act]()
	}
	return d.end(ctx, err)
}
