package culprit

// Engine is the policy. It is not safe for concurrent use.
type Engine struct {
	cfg Config
}

// New returns an Engine that has seen nothing. It fails if cfg has a mistake.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg.filled()}, nil
}
