package live

import (
	"context"
	"fmt"
	"testing"

	"github.com/spillgate/spillgate/internal/wire"
)

func TestUntagged(t *testing.T) {
	var none *Untagged
	none.Called(context.Background(), "m")
	none.Served(&wire.Tags{Workflow: "w"})

	var u Untagged
	total := func() (methods int, calls uint64) {
		u.Each(func(_ string, n uint64) { methods++; calls += n })
		return
	}
	u.Served(&wire.Tags{Credits: true, Demand: 1, Attempt: 1})
	u.Called(context.Background(), "m")
	if _, n := total(); n != 0 {
		t.Errorf("%d counted at a process that serves nothing with tags", n)
	}
	u.Served(&wire.Tags{Workflow: "w"})
	u.Called(WithTags(context.Background(), wire.Tags{Priority: 1}), "m")
	u.Called(context.WithValue(context.Background(), ServingKey{}, true), "m")
	if _, n := total(); n != 0 {
		t.Errorf("%d counted that had their request", n)
	}
	for i := range 10 * MaxUntagged {
		u.Called(context.Background(), fmt.Sprint(i))
		u.Called(context.Background(), "0")
	}
	if methods, n := total(); methods != MaxUntagged+1 || n != 20*MaxUntagged {
		t.Errorf("%d methods and %d calls, expected %d and %d", methods, n, MaxUntagged+1, 20*MaxUntagged)
	}
}
