package driver

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
)

// Console gives people the machine's console.
type Console interface {
	StepSource
	// StartConsole and StopConsole do nothing to a console that is so already.
	StartConsole(ctx context.Context, f Fence, n *node.Document) error
	StopConsole(ctx context.Context, f Fence, n *node.Document) error
	// Console says how to reach the console of a machine whose console was started:
	// Ironic's console_info, with type and url.
	Console(ctx context.Context, n *node.Document) (map[string]any, error)
}
