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
			g.Go(func() error {
				var q ask.Request
				reply := ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: "unreadable question"}}
				if json.Unmarshal(m.Data, &q) == nil {
					reply = c.Answer(ctx, q)
				}
				if body, err := json.Marshal(reply); err == nil {
					m.Respond(body) // a reply that is lost is asked for again
				}
				return nil
			})
		}
	}
}
