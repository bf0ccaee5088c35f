// Package terminal is a terminal on the serial console of a node, and a port for viewers of a graphical one: the client of
// central/console.
//
// It may import github.com/coder/websocket and protocol. It holds the escapes that a person types, and shows notes beside what
// the machine writes. It makes no terminal raw: its caller does.
package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// protocol is that of sessions with notes (central/console).
const protocol = "ironyard.console.v1"

// Target is the console of a node, and how to get to it.
type Target struct {
	// Base is the API's base URL, without /v1. Node is a name or UUID.
	Base, Node string
	// Header holds the credentials.
	Header http.Header
	Client *http.Client
}

func (t Target) client() *http.Client {
	if t.Client == nil {
		return http.DefaultClient
	}
	return t.Client
}

func (t Target) url(part string) string {
	if part != "" {
		part = "/" + part
	}
	return strings.TrimSuffix(strings.TrimSuffix(t.Base, "/"), "/v1") + "/v1/nodes/" + url.PathEscape(t.Node) + "/states/console" + part
}

// version lets a node be named by its name.
const version = "1.115"

// headers are those of a request.
func (t Target) headers() http.Header {
	h := t.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("X-Openstack-Ironic-Api-Version", version)
	return h
}

// said is what an answer that is no success says.
func said(resp *http.Response) string {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what cannot be read says nothing
	var outer struct {
		Message string `json:"error_message"`
	}
	var inner struct{ Faultstring, Title string }
	if json.Unmarshal(raw, &outer) == nil && json.Unmarshal([]byte(outer.Message), &inner) == nil && inner.Faultstring != "" {
		return inner.Faultstring
	}
	return resp.Status
}

// Dial opens a session. The caller hands it to Attach, or closes it.
func Dial(ctx context.Context, t Target) (*websocket.Conn, error) {
	conn, resp, err := websocket.Dial(ctx, t.url("stream"), &websocket.DialOptions{HTTPClient: t.Client, HTTPHeader: t.headers(), Subprotocols: []string{protocol}})
	if err != nil && resp != nil && resp.Body != nil {
		return nil, fmt.Errorf("open the console of %s: %s", t.Node, said(resp))
	}
	if err != nil {
		return nil, fmt.Errorf("open the console of %s: %w", t.Node, err)
	}
	conn.SetReadLimit(1 << 20)
	return conn, nil
}

// Log writes what is kept of the console to out.
func Log(ctx context.Context, t Target, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url("log"), nil)
	if err != nil {
		return err
	}
	req.Header = t.headers()
	resp, err := t.client().Do(req)
	if err != nil {
		return fmt.Errorf("read the console's log of %s: %w", t.Node, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("read the console's log of %s: %s", t.Node, said(resp))
	}
	_, err = io.Copy(out, resp.Body)
	return err
}

// Help is what ~? shows.
const Help = "~.  end the session    ~B  send a break    ~~  type a tilde    ~?  this list    (after Enter)"

// Attach copies what the machine writes to out, and what is read from in to the machine, until the person types ~., in or the
// session ends, or ctx does. in may be nil. It returns why a session ended that the person has not ended.
func Attach(ctx context.Context, conn *websocket.Conn, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan error, 1)
	if in != nil {
		go func() { // it may wait for a key until the program ends
			left <- send(ctx, conn, in, out)
			cancel()
		}()
	}
	err := show(ctx, conn, out)
	if closed := (websocket.CloseError{}); errors.As(err, &closed) {
		return fmt.Errorf("the session has ended: %s", reason(closed))
	}
	select {
	case sent := <-left:
		farewell(conn)
		return sent
	default:
	}
	conn.CloseNow()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the session has ended: %w", err)
}

// reason is why the other end has closed a session. What is before central may close one without a word.
func reason(closed websocket.CloseError) string {
	if closed.Reason == "" {
		return fmt.Sprintf("closed without a reason (%s)", closed.Code)
	}
	return closed.Reason
}

func farewell(conn *websocket.Conn) {
	_ = conn.Close(websocket.StatusNormalClosure, "") // it is over in any case
}

// show writes binary messages as they are and notes in brackets.
func show(ctx context.Context, conn *websocket.Conn, out io.Writer) error {
	for {
		kind, p, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if kind == websocket.MessageText {
			p = note(p)
		}
		if _, err := out.Write(p); err != nil {
			return err
		}
	}
}

// note is how a note looks on the terminal.
func note(raw []byte) []byte {
	var n struct {
		State, Error string
		Lost         int64
		NewLog       bool `json:"new_log"`
	}
	if json.Unmarshal(raw, &n) != nil {
		return nil
	}
	text := ""
	switch {
	case n.State == "open":
		text = "console open"
	case n.State != "":
		text = n.State
	case n.Lost > 0:
		text = fmt.Sprintf("%d bytes are missing here", n.Lost)
	case n.NewLog:
		text = "another rackd holds the console now; something may be missing here"
	case n.Error != "":
		text = "it may not have been typed: " + n.Error
	}
	return []byte("\r\n[" + text + "]\r\n")
}

// typeWithin bounds the sending of what was typed.
const typeWithin = 30 * time.Second

// send sends what is typed, except escapes.
func send(ctx context.Context, conn *websocket.Conn, in io.Reader, out io.Writer) error {
	e := escapes{fresh: true}
	buf := make([]byte, 1024)
	for {
		n, err := in.Read(buf)
		for _, a := range e.take(buf[:n]) {
			sending, cancel := context.WithTimeout(ctx, typeWithin)
			var sent error
			switch {
			case a.end:
				cancel()
				return nil
			case a.help:
				_, sent = io.WriteString(out, "\r\n"+Help+"\r\n")
			case a.brk:
				sent = conn.Write(sending, websocket.MessageText, []byte(`{"break":true}`))
			default:
				sent = conn.Write(sending, websocket.MessageBinary, a.typed)
			}
			cancel()
			if sent != nil {
				return sent
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
