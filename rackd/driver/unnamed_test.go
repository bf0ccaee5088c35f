package driver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
)

func TestUnnamed(t *testing.T) {
	n := &node.Document{UUID: "b3d1", Name: "web1"}
	err := Unnamed(n, fmt.Errorf("node %s: set the power: %w", n.Label(), ErrUnreachable))
	if err.Error() != "set the power: unreachable" || !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	other := &node.Document{UUID: "c4e2"}
	if again := Unnamed(other, err); again != err || Unnamed(n, nil) != nil {
		t.Errorf("%v: an error that does not name the node is another", again)
	}
}
