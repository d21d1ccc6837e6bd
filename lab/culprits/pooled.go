package culprits

import "context"

// pooled are culprits that take the connections of the application's own pool, one each, until none
// is left: the server sees them, and no session that waits.
func pooled(process string, statement func(size float64) string) []func(context.Context, *bench, float64, func(int64)) error {
	all := make([]func(context.Context, *bench, float64, func(int64)) error, poolSize)
	for i := range all {
		all[i] = func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
			c, err := b.db.Conn(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			var session int64
			if err := c.QueryRowContext(ctx, process).Scan(&session); err != nil {
				return err
			}
			mark(session)
			return exec(ctx, c, statement(size))
		}
	}
	return all
}
