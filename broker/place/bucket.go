package place

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Bucket opens a key-value bucket, or makes it. One that has fewer copies than cfg says, since somebody made it who knew of fewer servers, gets
// more; while NATS has no room for these, it stays as it is.
func Bucket(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return js.CreateOrUpdateKeyValue(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, err
	}
	if of, ok := status.(*jetstream.KeyValueBucketStatus); ok {
		if stream := of.StreamInfo().Config; stream.Replicas < cfg.Replicas {
			stream.Replicas = cfg.Replicas
			_, _ = js.UpdateStream(ctx, stream)
		}
	}
	return kv, nil
}
