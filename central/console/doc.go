// Package console carries a console between a WebSocket and the rackd that holds it.
//
// It may import protocol and github.com/coder/websocket; it declares what it needs of a rack. Invariants:
//   - What is read and typed goes as questions (protocol/ask). The Rack judges the caller's rights for each. A session ends with
//     these rights.
//   - A rackd that dies ends no session. Its successor is asked, and the session says that something may be missing.
//   - A reader that is slow is cut after writeWithin. It costs the machine and other readers nothing.
//   - A session of a graphical console is a viewer of its own. It carries RFB as it is, and ends with the rackd that has it.
//   - Sessions are bounded: MaxSessions, MaxOfNode, Idle and Longest.
//
// Binary messages are bytes of the console, in both directions. With the subprotocol Protocol, text messages are notes: JSON
// objects (Note, Order). Without it there are no notes, and text messages are typed as they are, as terminals in browsers send
// them.
package console

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
)

// Protocol is the subprotocol of sessions with notes.
const Protocol = "ironyard.console.v1"

// binaryProtocol is what clients of websockify offer, some versions of noVNC among them. It has no notes.
const binaryProtocol = "binary"

// The prefixes of subprotocols by which a page in a browser, which can set no headers, says who it is: the values of the
// headers X-Auth-Token and Authorization, in base64url without padding.
const (
	tokenProtocol         = "ironyard.token."
	authorizationProtocol = "ironyard.authorization."
)

// The bounds of sessions at one replica of central.
const (
	// MaxSessions bounds the sessions of all nodes, MaxOfNode those of one node. MaxOfProject bounds those of one project, or of a
	// caller without a project.
	MaxSessions  = 500
	MaxOfNode    = 10
	MaxOfProject = 100
	// Idle is how long a session may be open without a byte in either direction.
	Idle = 2 * time.Hour
	// Longest is how long a session lasts: then its client has to say again who it is.
	Longest = 8 * time.Hour
	// writeWithin is how long a client may take for what is written to it.
	writeWithin = 10 * time.Second
	// pingEvery is how often a client is asked whether it is there.
	pingEvery = 30 * time.Second
	// silentFor is how long no rackd may answer before a session ends.
	silentFor = 2 * time.Minute
	// quietFor is how long a rackd may keep a question while a machine is quiet. A rackd that dies is noticed after little more.
	quietFor = 4 * time.Second
	// retryEvery is the pause before a rackd that did not answer, or its successor, is asked again.
	retryEvery = 500 * time.Millisecond
	// typedPerSecond bounds what one session may type.
	typedPerSecond = 64 << 10
)

// Note is what a session says about a console. One member is set.
type Note struct {
	// State is "open", or why the console is not open now; it is open again later, if the session goes on.
	State string `json:"state,omitempty"`
	// Lost is how many bytes are missing here: the reader was too slow, or they came before what is kept.
	Lost int64 `json:"lost,omitempty"`
	// NewLog: what follows is from another log. Another rackd holds the console now, or the node has another tenant.
	NewLog bool `json:"new_log,omitempty"`
	// Error is why something that was typed may not have reached the machine.
	Error string `json:"error,omitempty"`
}

// Order is what a client asks for.
type Order struct {
	// Break sends a break.
	Break bool `json:"break,omitempty"`
}

// Rack asks the rackd that owns the node now, if the caller may still use the console. Errors that say an HTTP status from
// 400 to 499 end a session.
type Rack interface {
	Read(ctx context.Context, q ask.ConsoleRead) (ask.ConsoleOutput, error)
	Write(ctx context.Context, q ask.ConsoleInput) error
	// Of a graphical console.
	OpenViewer(ctx context.Context, q ask.Viewer) error
	ReadViewer(ctx context.Context, q ask.ViewerRead) (ask.ViewerOutput, error)
	WriteViewer(ctx context.Context, q ask.ViewerInput) error
	CloseViewer(ctx context.Context, q ask.Viewer) error
}

// protocols are the subprotocols that a request offers.
func protocols(h http.Header) (list []string) {
	for _, value := range h.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			list = append(list, strings.TrimSpace(name))
		}
	}
	return list
}

// Wanted reports whether a request asks for a WebSocket.
func Wanted(h http.Header) bool {
	return strings.EqualFold(h.Get("Upgrade"), "websocket")
}

// Credentials returns a copy of a request's headers with the credentials that its subprotocols hold, where it has none
// otherwise, and without these subprotocols. Without any, h itself is returned.
func Credentials(h http.Header) http.Header {
	offered := protocols(h)
	secret := func(name string) bool {
		return strings.HasPrefix(name, tokenProtocol) || strings.HasPrefix(name, authorizationProtocol)
	}
	if !slices.ContainsFunc(offered, secret) {
		return h
	}
	h = h.Clone()
	for _, name := range offered {
		for prefix, header := range map[string]string{tokenProtocol: "X-Auth-Token", authorizationProtocol: "Authorization"} {
			text, found := strings.CutPrefix(name, prefix)
			if value, err := base64.RawURLEncoding.DecodeString(text); found && err == nil && h.Get(header) == "" {
				h.Set(header, string(value))
			}
		}
	}
	h.Del("Sec-Websocket-Protocol")
	if rest := slices.DeleteFunc(offered, secret); len(rest) > 0 {
		h.Set("Sec-Websocket-Protocol", strings.Join(rest, ", "))
	}
	return h
}
