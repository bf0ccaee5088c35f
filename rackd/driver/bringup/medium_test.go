package bringup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// onMedium boots from a medium that is lost as lack says.
type onMedium struct {
	driver.Boot
	lack func() (driver.Lack, error)
	out  *int // how often it was taken out
}

func (m onMedium) MediumLack(context.Context, *driver.Task) (driver.Lack, error) { return m.lack() }
func (m onMedium) CleanUpRamdisk(ctx context.Context, t *driver.Task) error {
	*m.out++
	return m.Boot.CleanUpRamdisk(ctx, t)
}

// turn runs the step, and waits as it asks.
func turn(t *testing.T, r *drivertest.Rig, b driver.Interface) error {
	t.Helper()
	out, err := bringup.Settings{}.Ramdisk(t.Context(), r.Task(b))
	if poll, waits := out.Waiting(); err == nil && waits {
		if poll != 30*time.Second {
			t.Fatalf("it waits for %s", poll)
		}
		time.Sleep(poll)
	}
	return err
}

// A machine that has lost its medium, and has not read it, is started again at once. It is not so for ever.
func TestALostMedium(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.NoBoot = true
		var out int
		b := onMedium{networkboot.IPXE(), func() (driver.Lack, error) { return driver.Lack{Why: "it was taken out", Sure: true}, nil }, &out}
		began := time.Now()
		var err error
		for range 10 {
			if err = turn(t, r, b); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "started 3 times: it was taken out") || !strings.Contains(err.Error(), "web1") {
			t.Errorf("%v", err)
		}
		if on := r.Writes("power power on"); len(on) != 3 || out != 2 || time.Since(began) != 90*time.Second {
			t.Errorf("it was switched on %d times, its medium taken out %d times, in %s", len(on), out, time.Since(began))
		}
	})
}

// A machine that may run the ramdisk already gets the time to call. What is back in the drive by then does not help one that does not.
func TestAMediumThatMayHaveBeenRead(t *testing.T) {
	for name, c := range map[string]struct{ calls, back bool }{"it calls": {calls: true}, "it does not": {}, "it does not, and the medium is back": {back: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := drivertest.NewRig()
				r.NoBoot = true
				looks, out := 0, 0
				b := onMedium{networkboot.IPXE(), func() (driver.Lack, error) {
					if looks++; looks == 2 || looks > 2 && c.back || looks > 8 {
						if looks > 2 {
							return driver.Lack{}, nil
						}
						return driver.Lack{}, errors.New("the BMC is silent")
					}
					return driver.Lack{Why: "it was taken out"}, nil
				}, &out}
				for range 3 {
					if err := turn(t, r, b); err != nil {
						t.Fatal(err)
					}
				}
				if on := r.Writes("power power on"); len(on) != 1 {
					t.Fatalf("it was switched on %d times", len(on))
				}
				if c.calls {
					r.NextBoot()
				}
				for range 5 {
					if err := turn(t, r, b); err != nil {
						t.Fatal(err)
					}
				}
				want := map[bool]int{true: 1, false: 2}[c.calls]
				if on := r.Writes("power power on"); len(on) != want {
					t.Errorf("it was switched on %d times, want %d: %q", len(on), want, r.Phases)
				}
			})
		})
	}
}

// A person may be at the machine of a node in maintenance, and changes its media.
func TestAMediumInMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.NoBoot = true
		var out int
		b := onMedium{networkboot.IPXE(), func() (driver.Lack, error) { return driver.Lack{Why: "it was taken out", Sure: true}, nil }, &out}
		if err := turn(t, r, b); err != nil {
			t.Fatal(err)
		}
		r.Node.Maintenance = true
		if err := turn(t, r, b); err != nil || out > 0 {
			t.Errorf("%v, taken out %d times", err, out)
		}
	})
}

// Rackds have clocks of their own. One that goes on with the boot counts from when it has taken the work, whether its clock is ahead of the
// one before or behind. So does one whose clock was set back.
func TestAMediumIsMissedByOneClock(t *testing.T) {
	for name, c := range map[string]struct{ noted, taken time.Duration }{ // before now
		"the clock of before was behind":            {time.Hour, time.Minute},
		"the clock of before was ahead":             {-time.Hour, time.Minute},
		"the clock was set back":                    {-time.Hour, 0},
		"noted a minute ago, by this rackd's clock": {time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := drivertest.NewRig()
				r.NoBoot = true
				out := 0
				b := onMedium{networkboot.IPXE(), func() (driver.Lack, error) { return driver.Lack{Why: "it was taken out"}, nil }, &out}
				run := func(taken time.Time) {
					task := r.Task(b)
					task.Taken = taken
					if _, err := (bringup.Settings{}).Ramdisk(t.Context(), task); err != nil {
						t.Fatal(err)
					}
					time.Sleep(30 * time.Second)
				}
				run(time.Time{})
				began := time.Now()
				taken := time.Time{}
				if c.taken > 0 {
					taken = began.Add(-c.taken)
				}
				r.Task(b).Facts["medium_missing"] = began.Add(-c.noted).UTC().Format(time.RFC3339Nano)
				for range 2 {
					run(taken)
				}
				if out != 0 {
					t.Errorf("a minute after the take the machine was started again: %q", r.Phases)
				}
				for range 5 {
					run(taken)
				}
				if out != 1 {
					t.Errorf("the medium was taken out %d times, want once, within three minutes: %q", out, r.Phases)
				}
			})
		})
	}
}
