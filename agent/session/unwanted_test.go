package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

var errRefused = errors.New("404: no node")

// A service that fails leaves its machine in the ramdisk. What the agent has exported ends then, without a command: its rackds
// know no work of it any more. Rackds that are away, or have just started, end nothing.
func TestAnAgentWithoutWorkIsToldSo(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(n int) error
		want bool
	}{
		"the work is over":    {func(n int) error { return map[bool]error{true: errRefused}[n > 3] }, true},
		"rackds are away":     {func(n int) error { return map[bool]error{true: errors.New("no route to host")}[n > 3] }, false},
		"one has just begun":  {func(n int) error { return map[bool]error{true: errRefused}[n > 3 && n < 10] }, false},
		"away now and then":   {func(n int) error { return map[bool]error{true: errRefused, false: errors.New("timeout")}[n%10 != 0] }, false},
		"taken in, now again": {func(n int) error { return map[bool]error{true: errRefused}[n%10 != 0] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
				defer cancel()
				began, told := time.Now(), time.Duration(0)
				h := &Heart{Log: quiet, Rackd: &rackd{fail: c.fail}, Commands: &commands{changed: make(chan struct{})}, Identity: Identity{Node: "n", Timeout: time.Minute},
					Beat: agentapi.Heartbeat{}, Refused: func(err error) bool { return errors.Is(err, errRefused) },
					Unwanted: func() {
						if told == 0 {
							told = time.Since(began)
						}
					}}
				h.Run(ctx)
				if c.want != (told > 0) || c.want && (told < unwantedAfter || told > 2*unwantedAfter+2*time.Minute) {
					t.Errorf("told after %s", told)
				}
			})
		})
	}
}
