// Package session is the agent's relation to its rackd: who am I (lookup), I live
// (heartbeat).
//
// It may import protocol/agentapi only. Invariants: lookup is retried with growing
// pauses and ends after LookupFor; a heartbeat follows at once when a command ends;
// the pace never exceeds what the rackd asked for.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// The pace of the agent.
const (
	LookupFor  = 600 * time.Second
	firstPause = time.Second
	maxPause   = 30 * time.Second
	// maxInterval bounds the pause between heartbeats however long the timeout is.
	maxInterval = 60 * time.Second
	// busyInterval is the pause while a command runs, so that progress is seen.
	busyInterval = 2 * time.Second
	errorPause   = 5 * time.Second
	// unwantedAfter is how long rackds refuse heartbeats, one after the other, of an agent whose work is over. One that has just
	// started may do so for a moment.
	unwantedAfter = 2 * time.Minute
)

// ErrNoToken means that the rackd has given this node's token to somebody before
// and will not tell it again.
var ErrNoToken = errors.New("the rackd gave this node's agent token to an earlier boot and gives it out only once")

// Rackd answers the agent.
type Rackd interface {
	Lookup(ctx context.Context, macs []string, node string) (agentapi.LookupReply, time.Time, error)
	Heartbeat(ctx context.Context, node string, h agentapi.Heartbeat) error
}

// Commands tells the newest command and when that changes.
type Commands interface {
	Newest() (*agentapi.Command, <-chan struct{})
}

// Identity is what lookup found.
type Identity struct {
	Node    string
	Token   string
	Timeout time.Duration // of heartbeats
	// ClockOffset is the rackd's clock minus ours.
	ClockOffset time.Duration
}

// Lookup asks until it is answered or LookupFor is over. macs is called before
// each try, because interfaces may still appear. known is a token this boot was
// given before, if any.
func Lookup(ctx context.Context, log *slog.Logger, r Rackd, macs func() []string, node, known string) (Identity, error) {
	began, pause := time.Now(), firstPause
	for try := 1; ; try++ {
		addresses := macs()
		reply, date, err := r.Lookup(ctx, addresses, node)
		if err == nil {
			return identity(reply, date, known)
		}
		if ctx.Err() != nil {
			return Identity{}, context.Cause(ctx)
		}
		if time.Since(began)+pause > LookupFor {
			return Identity{}, fmt.Errorf("no rackd recognised this machine by its MAC addresses %v within %v and %d tries. Check that the node has a port with one of them, and that it is being deployed, cleaned or inspected. The last answer: %w",
				addresses, LookupFor, try, err)
		}
		// Jitter, so that a rack that was switched on at once does not ask at once.
		wait := pause/2 + rand.N(pause/2+1)
		log.Warn("lookup failed, trying again", "try", try, "in", wait.Round(time.Millisecond), "addresses", addresses, "error", err)
		select {
		case <-ctx.Done():
			return Identity{}, context.Cause(ctx)
		case <-time.After(wait):
		}
		pause = min(pause*2, maxPause)
	}
}

func identity(reply agentapi.LookupReply, date time.Time, known string) (Identity, error) {
	id := Identity{Node: reply.Node.UUID, Token: reply.Config.AgentToken, Timeout: time.Duration(reply.Config.HeartbeatTimeout) * time.Second}
	if id.Token == "" || id.Token == agentapi.Masked {
		if id.Token = known; known == "" {
			return id, fmt.Errorf("node %s: %w", id.Node, ErrNoToken)
		}
	}
	if id.Timeout <= 0 {
		id.Timeout = 300 * time.Second
	}
	if !date.IsZero() {
		id.ClockOffset = time.Until(date)
	}
	return id, nil
}

// Heart sends heartbeats.
type Heart struct {
	Log      *slog.Logger
	Rackd    Rackd
	Commands Commands
	Identity Identity
	// Beat is the part of a heartbeat that does not change.
	Beat agentapi.Heartbeat
	// Told, if set, is called with the newest command of each heartbeat that has arrived; nil before the first
	// command. Run calls it, so it must not block.
	Told func(*agentapi.Command)
	// Refused reports whether an error of a heartbeat is a rackd's refusal. Nil: none is.
	Refused func(error) bool
	// Unwanted, if set, is called when the rackds have refused all heartbeats for unwantedAfter, and then each time again. The work is
	// over then, and has left the machine in the ramdisk. Run calls it, so it must not block.
	Unwanted func()
}

// Run sends heartbeats until ctx ends.
func (h *Heart) Run(ctx context.Context) {
	failed := 0
	var refused time.Time // since when heartbeats are refused; zero: they are not
	for ctx.Err() == nil {
		beat := h.Beat
		newest, changed := h.Commands.Newest()
		beat.Command = newest.Brief()
		pause := h.pause(beat.Command)
		err := h.Rackd.Heartbeat(ctx, h.Identity.Node, beat)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failed++
			pause = errorPause
			h.Log.Warn("heartbeat failed, trying again", "times", failed, "in", pause, "error", err)
		case failed > 0:
			h.Log.Info("heartbeats arrive again", "after", failed)
			failed = 0
		}
		if err == nil && h.Told != nil {
			h.Told(beat.Command)
		}
		refused = h.unwanted(err, refused)
		timer := time.NewTimer(pause)
		if err != nil {
			// An unreachable rackd is not asked faster because a command ended: the
			// next heartbeat tells that anyway.
			changed = nil
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}

// unwanted calls Unwanted when heartbeats have been refused for long enough. since is when that began, and it returns the same
// for the next.
func (h *Heart) unwanted(err error, since time.Time) time.Time {
	switch {
	case err == nil || h.Refused == nil || !h.Refused(err): // a rackd that is not reached says nothing of the work
		return time.Time{}
	case since.IsZero():
		return time.Now()
	case time.Since(since) < unwantedAfter:
		return since
	}
	if h.Unwanted != nil {
		h.Unwanted()
	}
	return time.Now()
}

// pause is how long after this heartbeat the next is due.
func (h *Heart) pause(c *agentapi.Command) time.Duration {
	p := time.Duration(float64(h.Identity.Timeout) * (0.3 + 0.3*rand.Float64()))
	p = min(p, maxInterval)
	if c != nil && c.Status == agentapi.CommandRunning {
		p = min(p, busyInterval)
	}
	return p
}
