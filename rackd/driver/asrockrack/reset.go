package asrockrack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// NamedSteps lists the step that restarts the BMC.
func (m Management) NamedSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "management", Name: "reset_bmc", Kind: driver.Reattachable, Retries: 4, Pause: lookPause, NoRamdisk: true,
		In: driver.InClean | driver.InService, Run: m.resetBMC}}
}

// resetting is the handle of that step. It is saved before the order, which is given once.
type resetting struct {
	Asked bool `json:"asked,omitempty"`
	// Session names the session in which the order was given, and lets no one in.
	Session string `json:"session,omitempty"`
	Looks   int    `json:"looks,omitempty"`
	// Down: it did not answer after the order. Back: it has restarted, and answers.
	Down bool `json:"down,omitempty"`
	Back bool `json:"back,omitempty"`
}

// restarts is for how many looks a BMC may take to restart.
const restarts = 60

// resetBMC restarts the BMC. It is over when the BMC answers again, and shows that it has restarted: it was silent, or has forgotten the
// session of the order.
func (m Management) resetBMC(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "reset the BMC"
	var h resetting
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of a reset of the BMC cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	if h.Back {
		t.Record.Idle()
		return driver.Done(), nil
	}
	if !h.Asked {
		return m.orderReset(ctx, t, &h, doing)
	}
	now := ""
	err := m.Driver.with(ctx, nil, t.Node, doing, func(s *session) error {
		now = s.name()
		_, err := s.power(ctx)
		return err
	})
	// Another rackd's session may be over because that one has logged out.
	told, _ := m.Driver.resets.Load(t.Node.UUID)
	own := told == h.Session
	h.Looks++
	switch silent := errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced); {
	case err == nil && (h.Down || own && now != h.Session):
		t.Record.Idle()
		t.Record.Phase("BMC reset", "it answers again")
		h.Back = true
		return driver.Done(), t.Record.SaveHandle(ctx, h)
	case err != nil && !silent, silent && h.Looks >= restarts:
		return driver.Outcome{}, err
	case h.Looks >= restarts:
		t.Record.Idle()
		took := "it accepted the order"
		if !own {
			took = "another rackd gave the order, which may be lost or carried out"
		}
		return driver.Outcome{}, fmt.Errorf("node %s: %s: %s, and it has not been seen to restart within %s: look at its log", t.Node.Label(), doing, took, restarts*lookPause)
	case silent:
		h.Down = true
	}
	t.Record.Busy("the BMC restarts") // also a successor, whose predecessor may not have told
	return driver.Wait(lookPause), t.Record.SaveHandle(ctx, h)
}

// orderReset gives the order, and saves before that it does. The BMC is looked at from then on: its silence shows that it restarts.
func (m Management) orderReset(ctx context.Context, t *driver.Task, h *resetting, doing string) (driver.Outcome, error) {
	err := m.Driver.with(ctx, t.Fence, t.Node, doing, func(s *session) error {
		if _, err := s.power(ctx); err != nil { // a session that is over is told from one that the restart ends
			return err
		}
		h.Asked, h.Session = true, s.name()
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return err
		}
		m.Driver.resets.Store(t.Node.UUID, h.Session)
		s.wire.begin(ctx, t.Fence)
		_, err := s.api.BmcReset(ctx, "cold")
		return s.wire.sorted(err)
	})
	switch {
	case errors.Is(err, driver.ErrFenced) || err != nil && !h.Asked:
		return driver.Outcome{}, err
	case err != nil && !errors.Is(err, driver.ErrUnknown): // it was refused
		h.Asked = false
		return driver.Outcome{}, errors.Join(err, t.Record.SaveHandle(ctx, h))
	}
	t.Record.Busy("the BMC restarts")
	return driver.Wait(lookPause), nil
}

// name names the session by what the BMC gave, which it does not tell.
func (s *session) name() string {
	sum := sha256.Sum256([]byte(strings.Join(s.wire.hidden[ownSecrets:], "\x00")))
	return hex.EncodeToString(sum[:8])
}
