package driver

import (
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
)

// Unnamed returns err without the name of n at the start of its text. A caller whose own text names the node wraps it.
func Unnamed(n *node.Document, err error) error {
	if err == nil {
		return nil
	}
	rest, named := strings.CutPrefix(err.Error(), "node "+n.Label()+": ")
	if !named {
		return err
	}
	return &unnamed{rest, err}
}

type unnamed struct {
	text  string
	cause error
}

func (u *unnamed) Error() string { return u.text }
func (u *unnamed) Unwrap() error { return u.cause }
