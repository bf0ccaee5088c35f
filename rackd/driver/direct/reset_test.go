package direct

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// A reset of unknown outcome is not repeated into the first boot of the instance: only an
// agent that still answers shows that there was none.
func TestResetIntoTheInstance(t *testing.T) {
	for name, c := range map[string]struct {
		stays  bool // the agent answers after the reset
		resets int
	}{"it happened": {false, 1}, "it did not happen": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Node.DisablePowerOff = true
				r.SetPowerState(driver.PowerOn)
				lost := false
				r.Fail = func(call string) error {
					switch {
					case call == "set_power" && !lost:
						lost = true
						return driver.ErrUnknown
					case call == "commands" && lost && !c.stays:
						return driver.ErrUnreachable
					}
					return nil
				}
				i, err := New(Settings{}), error(nil)
				for run := range 5 {
					if _, err = i.bootInstance(t.Context(), r.Task(networkboot.IPXE())); err == nil {
						break
					}
					if run > 1 {
						t.Fatal(err)
					}
					time.Sleep(pause)
				}
				if got := r.Writes("power " + string(driver.Rebooting)); err != nil || len(got) != c.resets {
					t.Errorf("written %v, %v", r.Log, err)
				}
			})
		})
	}
}
