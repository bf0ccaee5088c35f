package driver

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
)

// Console gives people the machine's console.
type Console interface {
	StepSource
	// StartConsole finds out whether the console can be had, and StopConsole ends what it left, if anything. The rackd that
	// owns the node holds the console open while it is enabled (rackd/console).
	StartConsole(ctx context.Context, f Fence, n *node.Document) error
	StopConsole(ctx context.Context, f Fence, n *node.Document) error
	// Console says how to reach the console of a machine whose console was started: Ironic's console_info, with type and
	// url. It is nil for a Serial console. Of what rackd carries, central knows the URL.
	Console(ctx context.Context, n *node.Document) (map[string]any, error)
}

// Serial is implemented by console interfaces of which rackd carries what is written and typed.
type Serial interface {
	Console
	// OpenConsole takes the console. Where the BMC gives it to one session only, another one that has it ends. f is asked before each
	// write to the BMC, also for the Line's. Errors are those of this package.
	OpenConsole(ctx context.Context, f Fence, n *node.Document) (Line, error)
}

// Graphical is implemented by console interfaces that show pictures, by the protocol RFB (RFC 6143), as VNC does. Console tells the
// type VNC.
type Graphical interface {
	Console
	// OpenViewer opens a connection of a viewer's own, which begins with the server's greeting. The Line carries RFB in both
	// directions. What is not RFB is refused with its first words. f is asked before each write to the BMC, also for the Line's.
	// Errors are those of this package.
	OpenViewer(ctx context.Context, f Fence, n *node.Document) (Line, error)
}

// VNC is the type of graphical consoles in console_info, as Ironic has it.
const VNC = "vnc"

// Line is a console that is open. One goroutine reads, another one may write or close meanwhile.
type Line interface {
	// Read waits for what the machine writes. Its error says why the line has ended.
	Read(p []byte) (int, error)
	// Write returns once the BMC has taken all of p. An error that wraps ErrUnknown leaves open how much it took.
	Write(ctx context.Context, p []byte) error
	// Break sends a break, or returns ErrUnsupported.
	Break(ctx context.Context) error
	// Close gives the console back, as far as ctx allows, and ends Read.
	Close(ctx context.Context)
}
