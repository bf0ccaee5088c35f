package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/conductor"
)

// questionsAtOnce bounds how many questions are being answered.
const questionsAtOnce = 32

// answerQuestions answers central until ctx ends.
func answerQuestions(ctx context.Context, nc *nats.Conn, group, name string, c *conductor.Conductor) error {
	messages := make(chan *nats.Msg, questionsAtOnce)
	subject := bus.AskSubject(group, name)
	sub, err := nc.ChanSubscribe(subject, messages)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	defer sub.Unsubscribe()
	var g errgroup.Group
	g.SetLimit(questionsAtOnce)
	defer g.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			var q ask.Request
			if err := json.Unmarshal(m.Data, &q); err != nil {
				respond(m, ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: "unreadable question"}})
				continue
			}
			switch q.Method {
			case ask.AgentLookup, ask.AgentHeartbeat, ask.MachineSeen:
				// Answered from memory: these do not wait behind questions to slow BMCs.
				respond(m, c.Answer(ctx, q))
			default:
				g.Go(func() error { respond(m, c.Answer(ctx, q)); return nil })
			}
		}
	}
}

// respond answers, if an answer is awaited. One that is lost is asked for again.
func respond(m *nats.Msg, reply ask.Reply) {
	if m.Reply == "" {
		return
	}
	if body, err := json.Marshal(reply); err == nil {
		m.Respond(body)
	}
}
