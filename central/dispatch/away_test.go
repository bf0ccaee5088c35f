package dispatch

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// awayError is what central/sites says of a site that is away.
type awayError struct{}

func (awayError) Error() string   { return "the site has been unreachable since noon" }
func (awayError) HTTPStatus() int { return http.StatusServiceUnavailable }

func away(group string) error {
	if group == "" {
		return awayError{}
	}
	return nil
}

// While a site is away requests about its nodes are accepted, for whoever takes
// them when it is back, and nobody is asked.
func TestRequestsAreAcceptedWhileTheSiteIsAway(t *testing.T) {
	for name, known := range map[string]bool{"its rackds were seen before": true, "central started since": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Away = away
			b.Ask = asker(func(ask.Request) (json.RawMessage, error) {
				t.Error("a rackd of a site that is away was asked")
				return nil, awayError{}
			})
			owner := "rack-1"
			if !known {
				b.Roster, owner = roster{}, ""
			}
			b.put(provision.Available, provision.NoState, nil)
			if err := b.verb("active", nil); err != nil {
				t.Fatal(err)
			}
			if n := b.node(); n.ProvisionState != provision.Deploying || n.WorkID == "" || n.Reservation != owner || b.told.Load() == 0 {
				t.Errorf("state %q, work %q of %q, outbox written %d times", n.ProvisionState, n.WorkID, n.Reservation, b.told.Load())
			}
			b.put(provision.Active, provision.NoState, nil)
			if err := b.Power(t.Context(), Power{Node: b.node(), Target: PowerOff}); err != nil {
				t.Errorf("power: %v", err)
			}
			if _, err := b.Validate(t.Context(), b.node(), bus.Member{Name: "rack-1"}); !errors.As(err, new(awayError)) {
				t.Errorf("validation: %v", err)
			}
		})
	}
}

// A site that answers and has no rackd is no reason to accept what nobody will do.
func TestNobodyThereIsNotAway(t *testing.T) {
	b := newBench(t)
	b.Away, b.Roster = func(string) error { return nil }, roster{}
	b.put(provision.Available, provision.NoState, nil)
	var refusal *Refusal
	if err := b.verb("active", nil); !errors.As(err, &refusal) || refusal.Status != http.StatusServiceUnavailable {
		t.Errorf("accepted, or refused with %v", err)
	}
}
