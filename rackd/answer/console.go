package answer

import (
	"context"
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/protocol/ask"
)

// errNoConsoles: this rackd was put together without consoles.
var errNoConsoles = errors.New("this rackd holds no consoles")

// answerConsole answers what is asked of a console that is open. Refusals that are over soon are 503, and who asks comes
// back.
func (d *Desk) answerConsole(ctx context.Context, q ask.Request) (any, error) {
	if d.cfg.Consoles == nil {
		return nil, &ask.Error{Status: http.StatusServiceUnavailable, Message: errNoConsoles.Error()}
	}
	if q.Method == ask.ReadConsole {
		args, err := arguments[ask.ConsoleRead](q)
		if err != nil {
			return nil, err
		}
		return d.cfg.Consoles.Read(ctx, q.Node, args)
	}
	args, err := arguments[ask.ConsoleInput](q)
	if err != nil {
		return nil, err
	}
	return struct{}{}, d.cfg.Consoles.Write(ctx, q.Node, args)
}
