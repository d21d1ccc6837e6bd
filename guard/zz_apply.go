package guard

import "github.com/spillgate/spillgate/guard/track"

func (r *Rules) Apply2(l *track.Look) { r.apply(l) }
