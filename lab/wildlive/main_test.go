package wildlive

import (
	"testing"

	"github.com/spillgate/spillgate/lab/bed"
)

func TestMain(m *testing.M) {
	bed.Child() // does not return in the processes of a world
	m.Run()
}
