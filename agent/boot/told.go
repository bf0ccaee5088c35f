package boot

import (
	"context"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/agent/session"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// grace bounds the time between a command that ends the machine's run and the end.
const grace = 2 * time.Second

// told is what the last heartbeat that arrived said of the newest command.
type told struct{ news chan *agentapi.Command }

func newTold() told { return told{make(chan *agentapi.Command, 1)} }

// note takes the place of what was noted before. One goroutine calls it.
func (t told) note(c *agentapi.Command) {
	select {
	case <-t.news:
	default:
	}
	select {
	case t.news <- c:
	default:
	}
}

// await returns once a heartbeat has told rackd how the newest command ended. A rackd that does not
// answer keeps the machine for grace at most.
func (t told) await(ctx context.Context, commands session.Commands) {
	limit := time.NewTimer(grace)
	defer limit.Stop()
	for {
		select {
		case c := <-t.news:
			newest, _ := commands.Newest()
			if c != nil && newest != nil && c.ID == newest.Brief().ID && c.Status != agentapi.CommandRunning {
				return
			}
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// answerAll ends server once the requests under way have their answers: the command that ends the
// machine's run has one, too. A client that does not read its answer keeps the machine for grace at most.
func answerAll(ctx context.Context, server *http.Server) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_ = server.Shutdown(ctx) // what is left after that is closed
}
