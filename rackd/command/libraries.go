package command

import (
	stdlog "log"
	"log/slog"
	"strings"
)

// libraries is where libraries write to that have no log of their own. The HTTP client of Go prints the beginning of an answer for which
// nothing was asked, as of a BMC that answers twice. The token of a session may stand there.
type libraries struct{ log *slog.Logger }

// unasked is how the HTTP client begins such a line.
const unasked = "Unsolicited response received on idle HTTP channel"

// hearLibraries has libraries write to log, without what they quote.
func hearLibraries(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraries{log})
}

// Write implements io.Writer.
func (l libraries) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	if strings.Contains(text, unasked) {
		l.log.Warn("an HTTP server has answered without being asked, or twice: the connection to it was closed")
		return len(b), nil
	}
	l.log.Warn("a library writes", "text", text)
	return len(b), nil
}
