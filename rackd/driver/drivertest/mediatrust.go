package drivertest

import (
	"context"
	"errors"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// trusts has the machine's drives for CDs verify the servers of images.
func trusts(ctx context.Context, f driver.Fence, m *Machine) error {
	return m.Management.(driver.MediaTruster).TrustMedia(ctx, f, m.Node, "cdrom", []string{m.MediaCertificate})
}

// truster reports whether the management interface may have drives verify servers.
func (m *Machine) truster() bool { _, is := m.Management.(driver.MediaTruster); return is }

// checkMediaTrust holds TrustMedia to the contract of writes. It makes several: a certificate for each drive, and the order to verify.
func checkMediaTrust(t *testing.T, start func(*testing.T) *Machine) {
	if first := start(t); first.MediaCertificate == "" {
		if why := first.Without["MediaCertificate"]; why != "" {
			t.Skip(why)
		}
		t.Skip("its management interface tells no BMC of certificates")
	}
	all := 0
	t.Run("what is already so is not written", func(t *testing.T) {
		m, f := start(t), &Fence{}
		must(t, m, "TrustMedia", trusts(within(t), f, m))
		if all = m.Writes(); all == 0 || f.Checks.Load() < int64(all) {
			t.Errorf("%d writes reached the machine, and the fence was asked %d times", all, f.Checks.Load())
		}
		writes(t, m, "TrustMedia again", 0, func() { must(t, m, "TrustMedia again", trusts(within(t), &Fence{}, m)) })
	})
	t.Run("each write asks the fence", func(t *testing.T) { checkTrustFence(t, start) })
	t.Run("it asks the fence after its reads", func(t *testing.T) {
		m, f := start(t), &Fence{}
		if m.WhileRead == nil {
			t.Skip(m.Without["WhileRead"])
		}
		m.WhileRead(f.Lose)
		if err := trusts(within(t), f, m); !errors.Is(err, driver.ErrFenced) || m.Writes() != 0 {
			t.Errorf("%v; want ErrFenced, and no write of %d", err, m.Writes())
		}
	})
	t.Run("a context that has ended writes nothing", func(t *testing.T) {
		m := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		writes(t, m, "TrustMedia", 0, func() {
			err := trusts(ctx, &Fence{}, m)
			failing(t, m, "TrustMedia", err, nil)
			if errors.Is(err, driver.ErrUnknown) {
				t.Errorf("%v: nothing was written", err)
			}
		})
	})
	t.Run("a lost answer is unknown", func(t *testing.T) {
		m := start(t)
		if m.Lose == nil {
			t.Skip(m.Without["Lose"])
		}
		m.Lose()
		failing(t, m, "TrustMedia", trusts(within(t), &Fence{}, m), driver.ErrUnknown)
		must(t, m, "TrustMedia again", trusts(within(t), &Fence{}, m))
		if got := m.Writes(); got != all {
			t.Errorf("%d writes reached the machine, want %d", got, all)
		}
	})
}

// seeing is a fence that notes how much has reached the machine when it refuses for the first time.
type seeing struct {
	*Fence
	m       *Machine
	refused bool
	before  int
}

func (f *seeing) Check() error {
	err := f.Fence.Check()
	if err != nil && !f.refused {
		f.refused, f.before = true, f.m.Writes()
	}
	return err
}

// checkTrustFence takes the node away after each number of checks: what is written had a check of its own, and nothing is afterwards.
func checkTrustFence(t *testing.T, start func(*testing.T) *Machine) {
	for passed := range mostChecks {
		m := start(t)
		f := &seeing{Fence: &Fence{}, m: m}
		f.LoseAfter(passed)
		err := trusts(within(t), f, m)
		if err == nil {
			if passed == 0 {
				t.Error("it did not ask the fence")
			}
			return
		}
		if !errors.Is(err, driver.ErrFenced) {
			t.Errorf("after %d checks: %v; want the fence's own error", passed, err)
		}
		if n := m.Writes(); n != f.before || n > passed {
			t.Errorf("after %d checks: %d writes reached the machine, %d of them after the node was another rackd's", passed, n, n-f.before)
		}
	}
	t.Errorf("it asks the fence more than %d times", mostChecks)
}
