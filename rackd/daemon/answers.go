package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/trouble"
)

// answerer answers questions (rackd/answer).
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
	a := &answers{c: c, clock: newClock(), bmcs: newTurns(), memory: make(chan struct{}, memoryQuestions), consoles: make(chan struct{}, consoleQuestions), beats: make(chan struct{}, heartbeats)}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		var g errgroup.Group // its bounds are those of answers
		defer g.Wait()
		return hear(ctx, nc, log, []string{own}, true, func(m *nats.Msg, q ask.Request, received time.Time) {
			a.take(ctx, &g, m, q, received)
		})
	})
	// These do not wait behind questions to slow BMCs.
	both.Go(func() error {
		var g errgroup.Group // its bound is that of answers
		defer g.Wait()
		return hear(ctx, nc, log, handedOn, false, func(m *nats.Msg, q ask.Request, received time.Time) {
			q.Group = bus.GroupOfHandOn(m.Subject)
			if time.Since(received) < ask.HandOnTimeout { // else its sender waits no more
				a.hearOf(ctx, &g, m, q)
			}
		})
	})
	return both.Wait()
}

// answers gives each of central's questions its place: those that memory answers wait for no
// BMC, and those to one BMC for no other.
type answers struct {
	c      answerer
	clock  clock
	bmcs   *turns
	memory chan struct{}
	// consoles are the questions about open consoles, most of which wait for what a machine will write.
	consoles chan struct{}
	// beats are the heartbeats that are handed on, which wait for a checkpoint of their node's work.
	beats chan struct{}
}

// hearOf takes in a call that is handed on. What memory answers is answered in its turn: an agent is known by the address that was told of
// before it called. A heartbeat waits beside, so that work that writes no checkpoint holds up no other machine.
func (a *answers) hearOf(ctx context.Context, g *errgroup.Group, m *nats.Msg, q ask.Request) {
	if q.Method != ask.AgentHeartbeat {
		respond(m, a.c.Answer(ctx, q))
		return
	}
	select {
	case a.beats <- struct{}{}:
	default:
		respond(m, busy("%d heartbeats wait for checkpoints already", cap(a.beats)))
		return
	}
	g.Go(func() error {
		defer func() { <-a.beats }()
		respond(m, a.c.Answer(ctx, q))
		return nil
	})
}

// take answers q in g, or refuses it at once where there is no room. It does not wait.
func (a *answers) take(ctx context.Context, g *errgroup.Group, m *nats.Msg, q ask.Request, received time.Time) {
	end, late := a.clock.end(q, received)
	if late != nil {
		a.respond(m, ask.Reply{Error: late})
		return
	}
	answer := func(ctx context.Context) { a.respond(m, a.c.Answer(ctx, q)) }
	if q.Method.FromMemory() || q.Method.OfConsole() {
		room := a.memory
		if q.Method.OfConsole() {
			room = a.consoles
		}
		select {
		case room <- struct{}{}:
		default:
			a.respond(m, busy("this rackd answers %d questions already", cap(room)))
			return
		}
		g.Go(func() error {
			defer func() { <-room }()
			ctx, cancel := context.WithDeadline(ctx, end)
			defer cancel()
			answer(ctx)
			return nil
		})
		return
	}
	machine := cmp.Or(q.Node, q.Driver)
	turn, ok := a.bmcs.come(machine)
	if !ok {
		a.respond(m, busy("too many questions wait for the BMC of %q, or for those of this rack", machine))
		return
	}
	g.Go(func() error {
		defer a.bmcs.leave(machine, turn)
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		if !turn.do(ctx, func() { answer(ctx) }) {
			a.respond(m, ask.Reply{Error: ask.Late(q.Method, "other questions to the same BMC took all its time")})
		}
		return nil
	})
}

func busy(format string, args ...any) ask.Reply {
	return ask.Reply{Error: &ask.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...) + ". Nothing was done; try again."}}
}

func (a *answers) respond(m *nats.Msg, reply ask.Reply) {
	reply.Clock = a.clock.now()
	respond(m, reply)
}

// errTooManyQuestions: one is lost.
var errTooManyQuestions = errors.New("a question is lost: too many come at once")

// hear calls answer with each question that comes to one of subjects, which are for
// central's or for what is handed on, and with the moment when it was received, until ctx ends.
func hear(ctx context.Context, nc *nats.Conn, log *slog.Logger, subjects []string, centrals bool, answer func(m *nats.Msg, q ask.Request, received time.Time)) error {
	type arrived struct {
		m  *nats.Msg
		at time.Time
	}
	messages := make(chan arrived, questionsQueued)
	var lost trouble.Spells
	for _, subject := range subjects {
		sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
			select {
			case messages <- arrived{m, time.Now()}:
				lost.Tried(log, "to take in questions at "+subject, nil)
			default: // lost, as on the way: its asker waits no longer than for one that is
				lost.Tried(log, "to take in questions at "+subject, errTooManyQuestions, "wait", questionsQueued)
			}
		})
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		defer sub.Unsubscribe()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-messages:
			m := next.m
			if !genuine(m, subjects, centrals) {
				log.Warn("a message that is no question is ignored", "subject", m.Subject, "stream", m.Header.Get(jetstream.StreamHeader))
				continue
			}
			var q ask.Request
			switch err := json.Unmarshal(m.Data, &q); {
			case err != nil:
				respond(m, ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: "unreadable question"}})
			case centrals == q.Method.HandedOn():
				respond(m, ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("%s is not asked at %s", q.Method, m.Subject)}})
			default:
				answer(m, q, next.at)
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
