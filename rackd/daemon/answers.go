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
)

// How many questions are being answered, and how many wait: one that finds no room is
// lost, and who asked waits for nothing.
const (
	questionsAtOnce = 32
	questionsQueued = 4096
)

// answerer answers questions (rackd/conductor).
type answerer interface {
	Answer(ctx context.Context, q ask.Request) ask.Reply
}

// answerQuestions answers central, and hears what other rackds hand on about the
// groups that this one may serve, until ctx ends.
func answerQuestions(ctx context.Context, nc *nats.Conn, group, name string, serves []string, c answerer, log *slog.Logger) error {
	own, handedOn := bus.AskSubject(group, name), []string(nil)
	for _, g := range serves {
		handedOn = append(handedOn, bus.HandOnSubject(g, name))
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		var g errgroup.Group
		g.SetLimit(questionsAtOnce)
		defer g.Wait()
		return hear(ctx, nc, log, []string{own}, true, func(m *nats.Msg, q ask.Request) {
			g.Go(func() error { respond(m, c.Answer(ctx, q)); return nil })
		})
	})
	// Answered from memory: these do not wait behind questions to slow BMCs.
	both.Go(func() error {
		return hear(ctx, nc, log, handedOn, false, func(m *nats.Msg, q ask.Request) {
			q.Group = bus.GroupOfHandOn(m.Subject)
			respond(m, c.Answer(ctx, q))
		})
	})
	return both.Wait()
}

// hear calls answer with each question that comes to one of subjects, which are for
// central's or for what is handed on, until ctx ends.
func hear(ctx context.Context, nc *nats.Conn, log *slog.Logger, subjects []string, centrals bool, answer func(*nats.Msg, ask.Request)) error {
	messages := make(chan *nats.Msg, questionsQueued)
	for _, subject := range subjects {
		sub, err := nc.ChanSubscribe(subject, messages)
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		defer sub.Unsubscribe()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			if !genuine(m, subjects, centrals) {
				log.Warn("a message that nobody sent as a question is ignored", "subject", m.Subject, "stream", m.Header.Get(jetstream.StreamHeader))
				continue
			}
			var q ask.Request
			switch err := json.Unmarshal(m.Data, &q); {
			case err != nil:
				respond(m, ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: "unreadable question"}})
			case centrals == q.Method.HandedOn():
				respond(m, ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("%s is not asked at %s", q.Method, m.Subject)}})
			default:
				answer(m, q)
			}
		}
	}
}

// genuine reports whether somebody has sent m to one of subjects. The bus sends what
// it has stored wherever it is told to, the name of a question's subject included:
// such a message says from which stream it is. Questions of central await an answer.
func genuine(m *nats.Msg, subjects []string, centrals bool) bool {
	if !slices.Contains(subjects, m.Subject) || m.Header.Get(jetstream.StreamHeader) != "" || strings.HasPrefix(m.Reply, "$JS.") {
		return false
	}
	return !centrals || m.Reply != ""
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
