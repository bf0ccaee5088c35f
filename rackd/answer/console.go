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
	switch q.Method {
	case ask.ReadConsole:
		args, err := arguments[ask.ConsoleRead](q)
		if err != nil {
			return nil, err
		}
		return d.cfg.Consoles.Read(ctx, q.Node, args)
	case ask.WriteConsole:
		args, err := arguments[ask.ConsoleInput](q)
		if err != nil {
			return nil, err
		}
		return struct{}{}, d.cfg.Consoles.Write(ctx, q.Node, args)
	case ask.ReadViewer:
		args, err := arguments[ask.ViewerRead](q)
		if err != nil {
			return nil, err
		}
		return d.cfg.Consoles.ReadViewer(ctx, q.Node, args)
	case ask.WriteViewer:
		args, err := arguments[ask.ViewerInput](q)
		if err != nil {
			return nil, err
		}
		return struct{}{}, d.cfg.Consoles.WriteViewer(ctx, q.Node, args)
	}
	args, err := arguments[ask.Viewer](q)
	if err != nil {
		return nil, err
	}
	if q.Method == ask.OpenViewer {
		return struct{}{}, d.cfg.Consoles.OpenViewer(ctx, q.Node, args)
	}
	d.cfg.Consoles.CloseViewer(q.Node, args)
	return struct{}{}, nil
}
