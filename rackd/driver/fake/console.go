package fake

import (
	"context"
	"fmt"
	"io"
	"sync"

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

// Console finds nothing to say: rackd carries the console.
func (c console) Console(ctx context.Context, n *node.Document) (map[string]any, error) {
	return nil, c.use(ctx, n, "console", func(*machine) {})
}

// OpenConsole opens a console that says whose it is and repeats what is typed, as a terminal whose other end echoes.
func (c console) OpenConsole(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	if err := c.write(ctx, f, n, "open_console", func(*machine) {}); err != nil {
		return nil, err
	}
	l := &echo{node: n, fence: f, change: make(chan struct{}, 1)}
	l.say(fmt.Sprintf("\r\nThis is the made-up machine of node %s. It repeats what is typed.\r\n", n.Label()))
	return l, nil
}

// maxEchoed bounds what an echo holds that is not read.
const maxEchoed = 64 << 10

// echo is the console of a made-up machine.
type echo struct {
	node   *node.Document
	fence  driver.Fence
	change chan struct{} // one place

	mu     sync.Mutex
	out    []byte
	closed bool
}

// say adds what the machine writes.
func (l *echo) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.out)+len(text) <= maxEchoed {
		l.out = append(l.out, text...)
	}
	l.nudge()
}

func (l *echo) nudge() {
	select {
	case l.change <- struct{}{}:
	default:
	}
}

// Read implements driver.Line.
func (l *echo) Read(p []byte) (int, error) {
	for {
		l.mu.Lock()
		n := copy(p, l.out)
		l.out = l.out[n:]
		closed := l.closed
		l.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if closed {
			return 0, io.EOF
		}
		<-l.change
	}
}

// Write implements driver.Line.
func (l *echo) Write(ctx context.Context, p []byte) error {
	if err := delayed(ctx, l.node, "type_console"); err != nil {
		return err
	}
	if err := l.fence.Check(); err != nil {
		return err
	}
	var out []byte
	for _, b := range p {
		if out = append(out, b); b == '\r' {
			out = append(out, '\n')
		}
	}
	l.say(string(out))
	return nil
}

// Break implements driver.Line.
func (l *echo) Break(context.Context) error {
	if err := l.fence.Check(); err != nil {
		return err
	}
	l.say("\r\n[break]\r\n")
	return nil
}

// Close implements driver.Line.
func (l *echo) Close(context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.nudge()
}
