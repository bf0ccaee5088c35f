package fake

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// graphical is the console interface fake-graphical: a small screen of one colour, which is the node's own. A key changes it.
type graphical struct{ base }

func (g graphical) StartConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	return g.change(ctx, f, n, "start_console", func(s *state) { s.Console = true })
}

func (g graphical) StopConsole(ctx context.Context, f driver.Fence, n *node.Document) error {
	return g.change(ctx, f, n, "stop_console", func(s *state) { s.Console = false })
}

// Console tells the type.
func (g graphical) Console(ctx context.Context, n *node.Document) (map[string]any, error) {
	return map[string]any{"type": driver.VNC}, g.use(ctx, n, "console", func(*machine) {})
}

// OpenViewer implements driver.Graphical.
func (g graphical) OpenViewer(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	if err := g.write(ctx, f, n, "open_console", func(*machine) {}); err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	s := &screen{conn: far, name: "made-up machine of node " + n.Label(), colour: ScreenColour(n.UUID)}
	go s.serve()
	return &viewed{near, f}, nil
}

// viewed is the viewer's end of a made-up screen.
type viewed struct {
	conn  net.Conn
	fence driver.Fence
}

// Read implements driver.Line.
func (v *viewed) Read(p []byte) (int, error) { return v.conn.Read(p) }

// Write implements driver.Line.
func (v *viewed) Write(ctx context.Context, p []byte) error {
	if err := v.fence.Check(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = v.conn.SetWriteDeadline(time.Unix(1, 0)) })()
	if _, err := v.conn.Write(p); err != nil {
		v.conn.Close() // a part of it may be there
		return fmt.Errorf("the made-up screen took not all (%w): %w", err, driver.ErrUnknown)
	}
	return nil
}

// Break implements driver.Line.
func (*viewed) Break(context.Context) error {
	return fmt.Errorf("a graphical console has no break: %w", driver.ErrUnsupported)
}

// Close implements driver.Line.
func (v *viewed) Close(context.Context) { v.conn.Close() }
