package fake

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

type console struct{ base }

func (c console) StartConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	return c.change(ctx, f, n, "start_console", func(s *state) { s.Console = true })
}

func (c console) StopConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	return c.change(ctx, f, n, "stop_console", func(s *state) { s.Console = false })
}

// Console names the console; there is nobody to talk to.
func (c console) Console(ctx context.Context, n *node.Document) (map[string]any, error) {
	err := c.use(ctx, n, "console", func(*machine) {})
	return map[string]any{"type": "fake", "url": "fake://" + n.UUID}, err
}
