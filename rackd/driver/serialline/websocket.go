package serialline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/rackd/driver"
)

// largestMessage bounds a message of a BMC, in bytes. It is read in parts, whatever its size.
const largestMessage = 1 << 20

// webSocket is a WebSocket whose messages are bytes of the console.
type webSocket struct {
	conn    *websocket.Conn
	ctx     context.Context // ends with the connection
	cancel  context.CancelFunc
	message io.Reader // that is being read, nil for none
}

// WebSocket makes a stream of a WebSocket, which it owns from here on.
func WebSocket(conn *websocket.Conn) Stream {
	conn.SetReadLimit(largestMessage)
	ctx, cancel := context.WithCancel(context.Background())
	return &webSocket{conn: conn, ctx: ctx, cancel: cancel}
}

// Read implements Stream.
func (w *webSocket) Read(p []byte) (int, error) {
	for {
		if w.message == nil {
			_, next, err := w.conn.Reader(w.ctx)
			if err != nil {
				return 0, ended(err)
			}
			w.message = next
		}
		n, err := w.message.Read(p)
		if errors.Is(err, io.EOF) {
			w.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// ended is why a WebSocket has ended, with the BMC's own words where it has said some.
func ended(err error) error {
	closed, told := errors.AsType[websocket.CloseError](err)
	switch {
	case told && closed.Reason != "":
		return fmt.Errorf("the BMC has closed it: %s", closed.Reason)
	case told:
		return io.EOF
	}
	return err
}

// Write implements Stream.
func (w *webSocket) Write(p []byte) error { return w.conn.Write(w.ctx, websocket.MessageBinary, p) }

// Break implements Stream: a WebSocket carries bytes only.
func (w *webSocket) Break() error {
	return fmt.Errorf("a console by a WebSocket has no break: %w", driver.ErrUnsupported)
}

// Alive implements Stream.
func (w *webSocket) Alive(ctx context.Context) error { return w.conn.Ping(ctx) }

// Close implements Stream.
func (w *webSocket) Close() {
	w.cancel()
	_ = w.conn.CloseNow()
}
