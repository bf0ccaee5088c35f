package ask

import "time"

// The bounds of questions about a viewer of a graphical console.
const (
	// ViewerPiece bounds the bytes of one answer to ReadViewer.
	ViewerPiece = 128 << 10
	// ViewerSilent is how long a rackd keeps a viewer without a question about it.
	ViewerSilent = 30 * time.Second
)

// Viewer is one viewer of a node's graphical console. It has a connection of its own at the machine's BMC, since RFB begins with a
// greeting for each. It ends with the rackd that opened it.
type Viewer struct {
	// Tenancy is as in ConsoleRead.
	Tenancy string `json:"tenancy,omitempty"`
	// ID is chosen by who opens it, so that the question may be asked again. It cannot be guessed.
	ID string `json:"id"`
}

// ViewerRead asks for what follows a place in what the BMC sends.
type ViewerRead struct {
	Viewer
	// From is how many bytes its asker has. They are kept no longer; the same place may be asked for again.
	From int64 `json:"from,omitempty"`
	// WaitMS is how many milliseconds to wait for something new, at most ConsoleWait.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// ViewerOutput is what the BMC sent. No byte is left out.
type ViewerOutput struct {
	Data []byte `json:"data,omitempty"`
	// Ended is why nothing follows Data; empty while something may.
	Ended string `json:"ended,omitempty"`
}

// ViewerInput is what the viewer sends, ConsoleTyped bytes at most.
type ViewerInput struct {
	Viewer
	// At is how many bytes the viewer has sent before Data. What the BMC has already is not sent again.
	At   int64  `json:"at,omitempty"`
	Data []byte `json:"data,omitempty"`
}
