package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// Info is Ironic's console_info.
type Info struct {
	Enabled bool                       `json:"console_enabled"`
	Console struct{ Type, URL string } `json:"console_info"`
}

// Graphical reports whether the console speaks RFB, as VNC viewers do.
func (i Info) Graphical() bool { return i.Console.Type == "vnc" }

// Show asks which console a node has.
func Show(ctx context.Context, t Target) (info Info, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url(""), nil)
	if err != nil {
		return info, err
	}
	req.Header = t.headers()
	resp, err := t.client().Do(req)
	if err != nil {
		return info, fmt.Errorf("look at the console of %s: %w", t.Node, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return info, fmt.Errorf("look at the console of %s: %s", t.Node, said(resp))
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&info); err != nil {
		return info, fmt.Errorf("look at the console of %s: %w", t.Node, err)
	}
	return info, nil
}

// Forward gives each connection to l a session of a graphical console, until ctx ends or l does, but for those of other users of this
// host. It closes l, and its viewers end with it. tell gets what people are to know, a line at a time. Several goroutines may call it.
func Forward(ctx context.Context, t Target, l net.Listener, tell func(string)) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	carrying, cut := context.WithCancel(ctx)
	defer cut()
	for {
		viewer, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		all.Go(func() {
			defer viewer.Close()
			if err := mayView(viewer); err != nil {
				tell("a viewer is turned away: " + err.Error())
				return
			}
			tell("a viewer has come from " + viewer.RemoteAddr().String())
			if why := carry(carrying, t, viewer, tell); carrying.Err() == nil {
				tell("it has ended: " + why.Error())
			}
		})
	}
}

// greeting is how the words of a viewer begin. A page in a browser can connect to a port of loopback too, and begins otherwise.
const greeting = "RFB 003."

var errNoViewer = errors.New("what has connected is no viewer: it does not speak RFB")

// errLeft: the viewer has closed its connection.
var errLeft = errors.New("the viewer has gone")

// carry carries one viewer's RFB. It returns why that has ended.
func carry(ctx context.Context, t Target, viewer net.Conn, tell func(string)) error {
	conn, err := Dial(ctx, t)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { viewer.Close() })()
	go func() {
		buf, sent := make([]byte, 16<<10), 0
		for {
			n, err := viewer.Read(buf)
			if wanted := greeting[min(sent, len(greeting)):]; !strings.HasPrefix(string(buf[:n]), wanted[:min(n, len(wanted))]) {
				cancel(errNoViewer)
				return
			}
			sent += n
			if n > 0 {
				if conn.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
					return // the other direction says why
				}
			}
			if err != nil {
				farewell(conn)
				cancel(errLeft)
				return
			}
		}
	}()
	for {
		kind, p, err := conn.Read(ctx)
		switch closed, told := errors.AsType[websocket.CloseError](err); {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case told:
			return errors.New(reason(closed))
		case err != nil:
			return err
		}
		if kind == websocket.MessageText {
			var n struct{ State, Error string }
			if json.Unmarshal(p, &n) == nil && n.State+n.Error != "" {
				tell("console " + n.State + n.Error)
			}
			continue
		}
		if _, err := viewer.Write(p); err != nil {
			farewell(conn)
			return errLeft
		}
	}
}
