package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/conductor"
)

// How many questions are being answered, and how many wait: one that finds no room is
// lost, and who asked waits for nothing.
const (
	questionsAtOnce = 32
	questionsQueued = 4096
)

// answerQuestions answers central, and hears what other rackds hand on about the
// groups that this one may serve, until ctx ends.
func answerQuestions(ctx context.Context, nc *nats.Conn, group, name string, serves []string, c *conductor.Conductor, log *slog.Logger) error {
	messages := make(chan *nats.Msg, questionsQueued)
	own := bus.AskSubject(group, name)
	subjects := []string{own}
	for _, g := range serves {
		subjects = append(subjects, bus.HandOnSubject(g, name))
	}
	for _, subject := range subjects {
		sub, err := nc.ChanSubscribe(subject, messages)
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		defer sub.Unsubscribe()
	}
	var g errgroup.Group
	g.SetLimit(questionsAtOnce)
	defer g.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			if !genuine(m, subjects) {
				log.Warn("a message that nobody sent as a question is ignored", "subject", m.Subject, "stream", m.Header.Get(jetstream.StreamHeader))
				continue
			}
			var q ask.Request
			if err := json.Unmarshal(m.Data, &q); err != nil {
				respond(m, ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: "unreadable question"}})
				continue
			}
			switch handed := m.Subject != own; {
			case handed != q.Method.HandedOn():
				respond(m, ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("%s is not asked at %s", q.Method, m.Subject)}})
			case handed:
				// Answered from memory: this does not wait behind questions to slow BMCs.
				q.Group = bus.GroupOfHandOn(m.Subject)
				respond(m, c.Answer(ctx, q))
			default:
				g.Go(func() error { respond(m, c.Answer(ctx, q)); return nil })
			}
		}
	}
}

// genuine reports whether somebody has sent m to one of subjects. The bus sends what
// it has stored wherever it is told to, the name of a question's subject included:
// such a message says from which stream it is. Questions of central await an answer.
func genuine(m *nats.Msg, subjects []string) bool {
	if !slices.Contains(subjects, m.Subject) || m.Header.Get(jetstream.StreamHeader) != "" || strings.HasPrefix(m.Reply, "$JS.") {
		return false
	}
	return m.Subject != subjects[0] || m.Reply != ""
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
