package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// Installation is what the kickstart of an installer's boot needs and no boot order holds: both are secret.
type Installation struct {
	Token string // of the boot
	Drive string // the config drive as base64 of a gzipped image; empty: there is none
}

// Installation returns that of a node whose machine boots an installer now, with that id of its boot. Any rackd of the group can
// tell it.
func (c *Conductor) Installation(ctx context.Context, id, bootID string) (i Installation, err error) {
	n, w := c.cfg.Documents.Node(id), c.cfg.Documents.Work(id)
	if n == nil || w == nil || !w.Doc.Open() {
		return i, refusal.ErrNoNode
	}
	key := c.cfg.Keys.Of(n.Group)
	if key == nil {
		return i, fmt.Errorf("this rackd has no key of conductor group %q", n.Group)
	}
	boot := c.bootOf(id)
	if !key.BootIDFits(id, w.Doc.Root(), boot.Number, bootID) {
		return i, refusal.ErrNoNode
	}
	i.Token = key.Token(id, w.Doc.Root(), boot.Number)
	if w.Doc.Args.ConfigDrive == "" {
		return i, nil
	}
	sealed, err := c.cfg.Documents.ConfigDrive(ctx, w.Doc.Args.ConfigDrive)
	if err != nil {
		return i, fmt.Errorf("read the config drive: %w", err)
	}
	input, err := c.secrets.Unseal(&w.Doc, seal.Label{Kind: seal.SentDrive, Of: id, Work: w.Doc.Root()}, sealed)
	if errors.Is(err, driver.ErrAwaited) {
		return i, refusal.ErrNoNode // the work is about to be replaced
	}
	if err != nil {
		return i, fmt.Errorf("open the config drive: %w", err)
	}
	i.Drive, err = c.cfg.BuildDrive(ctx, input, n.Instance(), n.Name)
	return i, err
}
