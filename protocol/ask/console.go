package ask

import "time"

// The bounds of questions about a console.
const (
	// ConsoleWait is how long a rackd may keep a ReadConsole whose console is quiet. It is well below Timeout.
	ConsoleWait = 10 * time.Second
	// ConsolePiece bounds the bytes of one answer to ReadConsole.
	ConsolePiece = 32 << 10
	// ConsoleTyped bounds the bytes of one WriteConsole.
	ConsoleTyped = 4 << 10
)

// OfConsole reports whether m is about an open console. A rackd answers from what it holds open, and may keep the question
// for ConsoleWait.
func (m Method) OfConsole() bool {
	switch m {
	case ReadConsole, WriteConsole, OpenViewer, ReadViewer, WriteViewer, CloseViewer:
		return true
	}
	return false
}

// ConsoleRead asks for what a machine wrote to its console.
type ConsoleRead struct {
	// Tenancy is that of the node as its asker was let in. A rackd that knows of another one refuses.
	Tenancy string `json:"tenancy,omitempty"`
	// Log and From are where the reader has come to, from the last answer; an empty Log: the oldest byte that is kept.
	Log  string `json:"log,omitempty"`
	From int64  `json:"from,omitempty"`
	// State is the newest state that the reader knows (ConsoleOutput.State). Another one is answered at once.
	State string `json:"state,omitempty"`
	// WaitMS is how many milliseconds to wait for something new, at most ConsoleWait.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// ConsoleOutput is what a machine wrote.
type ConsoleOutput struct {
	// Log is the log that Data is from. Another rackd, or another tenancy of the node, has another one.
	Log string `json:"log"`
	// Next is where Data ends in the log.
	Next int64  `json:"next"`
	Data []byte `json:"data,omitempty"`
	// Lost is how many bytes before Data the reader has missed, as they are kept no longer.
	Lost int64 `json:"lost,omitempty"`
	// State is "open", or why the console is not open now.
	State string `json:"state"`
	// Graphical: the console is a graphical one, of which nothing is kept. It has viewers (OpenViewer).
	Graphical bool `json:"graphical,omitempty"`
}

// ConsoleOpen is the state of a console that is open.
const ConsoleOpen = "open"

// ConsoleInput is what a person types.
type ConsoleInput struct {
	// Tenancy is as in ConsoleRead.
	Tenancy string `json:"tenancy,omitempty"`
	Data    []byte `json:"data,omitempty"`
	// Break is sent before Data.
	Break bool `json:"break,omitempty"`
}
