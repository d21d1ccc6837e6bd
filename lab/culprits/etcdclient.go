package culprits

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillgate/spillgate/guard/etcd/keyrange"
)

// etcdClient speaks what a scene needs of etcd's protocol, and sends nothing twice.
type etcdClient struct {
	address string
	conn    *grpc.ClientConn
}

func dialEtcd(address string) (*etcdClient, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(plainBytes{}), grpc.WaitForReady(true)))
	return &etcdClient{address, conn}, err
}

func (c *etcdClient) close() { _ = c.conn.Close() }

func (c *etcdClient) call(ctx context.Context, method string, message []byte) error {
	return c.conn.Invoke(ctx, method, &message, new([]byte))
}

func (c *etcdClient) put(ctx context.Context, key, value string) error {
	return c.call(ctx, "/etcdserverpb.KV/Put", text(text(nil, 1, key), 2, value))
}

func (c *etcdClient) get(ctx context.Context, key string) error {
	return c.call(ctx, keyrange.MethodRange, text(nil, 1, key))
}

// count counts the keys with a prefix that ends in a slash.
func (c *etcdClient) count(ctx context.Context, prefix string) error {
	end := prefix[:len(prefix)-1] + "0" // the byte behind the slash
	message := text(text(nil, 1, prefix), 2, end)
	return c.call(ctx, keyrange.MethodRange, protowire.AppendVarint(protowire.AppendTag(message, 9, protowire.VarintType), 1))
}

// fill puts the keys that are counted into an etcd, many in a transaction.
func (e *etcdStage) fill(ctx context.Context, address string) error {
	c, err := dialEtcd(address)
	if err != nil {
		return err
	}
	defer c.close()
	const most = 10_000
	for from := 0; from < e.keys; from += most {
		var message []byte
		for i := from; i < min(from+most, e.keys); i++ {
			put := text(text(nil, 1, fmt.Sprintf("bulk/%08d", i)), 2, "x")
			message = text(message, 2, string(text(nil, 2, string(put)))) // success: request_put
		}
		if err := c.call(ctx, keyrange.MethodTxn, message); err != nil {
			return fmt.Errorf("filling etcd: %w", err)
		}
	}
	return nil
}

// text appends a field of bytes.
func text(b []byte, number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// plainBytes is a codec for messages that are bytes already.
type plainBytes struct{}

// Name implements encoding.Codec.
func (plainBytes) Name() string { return "proto" }

// Marshal implements encoding.Codec.
func (plainBytes) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal implements encoding.Codec.
func (plainBytes) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
