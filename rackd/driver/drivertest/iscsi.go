package drivertest

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// ISCSIMachine is a machine whose firmware boots by iSCSI, off and in UEFI mode, without a target. Power and Management of
// Machine may be nil.
type ISCSIMachine struct {
	*Machine
	Booter driver.ISCSIBooter
	// Adapters is how many network adapters get a target.
	Adapters int
	// Holds is all that the settings of the adapters hold, secrets included, as text.
	Holds func() string
	// Stubborn has the machine refuse settings that are empty or null.
	Stubborn func()
}

// ISCSIConformance holds a driver.ISCSIBooter to its contract.
func ISCSIConformance(t *testing.T, start func(t *testing.T) *ISCSIMachine) {
	plain := driver.ISCSITarget{Host: "192.0.2.10", Port: 3260, IQN: "iqn.2010-10.org.example:volume-1", LUN: 1}
	chap := plain
	chap.User, chap.Secret = "chap-user", "ch4p-s3cret-of-mine"
	read := func(t *testing.T, m *ISCSIMachine) []driver.ISCSITarget {
		t.Helper()
		list, err := m.Booter.ISCSIBoot(within(t), m.Node)
		must(t, m.Machine, "ISCSIBoot", err)
		return list
	}
	shows := func(t *testing.T, m *ISCSIMachine, want driver.ISCSITarget) {
		t.Helper()
		list := read(t, m)
		for _, is := range list {
			if !want.Same(is) || is.Secret != "" {
				t.Errorf("it shows the target %+v, want %+v without its secret", is, want)
			}
		}
		if len(list) != m.Adapters {
			t.Errorf("%d adapters have a target, want %d", len(list), m.Adapters)
		}
	}
	set := func(t *testing.T, m *ISCSIMachine, target driver.ISCSITarget) {
		t.Helper()
		must(t, m.Machine, "SetISCSIBoot", m.Booter.SetISCSIBoot(within(t), &Fence{}, m.Node, target))
		shows(t, m, target)
	}
	clear := func(t *testing.T, m *ISCSIMachine) {
		t.Helper()
		must(t, m.Machine, "ClearISCSIBoot", m.Booter.ClearISCSIBoot(within(t), &Fence{}, m.Node))
		if left := read(t, m); len(left) > 0 {
			t.Errorf("it still shows %+v", left)
		}
	}
	// The next tenant of the machine reads what its cards hold. Root there has the firmware's settings, and each boot leaves them in the
	// iBFT.
	mutual, second := chap, plain
	mutual.TargetUser, mutual.TargetSecret = "target-user", "s3cret-of-target"
	second.Second = driver.ISCSIPath{Host: "192.0.2.12", Port: 3261, IQN: "iqn.2010-10.org.example:volume-1b", LUN: 3}
	keepsNothing := func(t *testing.T, m *ISCSIMachine, words ...string) {
		t.Helper()
		for _, word := range words {
			if holds := m.Holds(); strings.Contains(holds, word) {
				t.Errorf("after it was cleared the machine holds %q: %s", word, holds)
			}
		}
	}
	t.Run("nothing of a target is left when it is cleared", func(t *testing.T) {
		for _, target := range []driver.ISCSITarget{chap, mutual, second} {
			m := start(t)
			if m.Booter.ISCSIRoom().Fits(target, m.Node) != nil {
				continue
			}
			set(t, m, target)
			if !strings.Contains(m.Holds(), target.IQN) || !strings.Contains(m.Holds(), target.Secret) {
				t.Fatalf("the machine does not tell what it holds: %s", m.Holds())
			}
			clear(t, m)
			keepsNothing(t, m, "org.example", "chap-user", chap.Secret, "target-user", mutual.TargetSecret, "192.0.2.1")
			writes(t, m.Machine, "clear again", 0, func() { clear(t, m) })
		}
	})
	t.Run("a secret that cannot be emptied is overwritten, and what stays is told", func(t *testing.T) {
		m := start(t)
		set(t, m, chap)
		m.Stubborn()
		err := m.Booter.ClearISCSIBoot(within(t), &Fence{}, m.Node)
		if err != nil && !errors.Is(err, driver.ErrTargetKept) {
			t.Fatalf("%v, want nil or ErrTargetKept", err)
		}
		if left := read(t, m); len(left) > 0 {
			t.Errorf("it still shows %+v", left)
		}
		keepsNothing(t, m, chap.Secret)
		if err == nil {
			keepsNothing(t, m, "org.example", "chap-user")
		}
	})
	t.Run("a target is set, shown and cleared", func(t *testing.T) {
		m := start(t)
		if left := read(t, m); len(left) > 0 {
			t.Fatalf("it begins with %+v", left)
		}
		set(t, m, plain)
		other := plain
		other.IQN, other.LUN, other.Host = "iqn.2010-10.org.example:volume-2", 0, "192.0.2.11"
		set(t, m, other)
		set(t, m, chap)
		six := chap
		six.Host = "2001:db8::10"
		set(t, m, six)
		set(t, m, plain)
		set(t, m, six)
		clear(t, m)
		set(t, m, plain)
		clear(t, m)
	})
	t.Run("what it has room for is set, and all else is refused", func(t *testing.T) {
		m := start(t)
		room := m.Booter.ISCSIRoom()
		for _, c := range []struct {
			target driver.ISCSITarget
			fits   bool
			says   string
		}{{mutual, room.Mutual, "mutual_auth_username"}, {second, room.Paths > 1, "one target_portal"}} {
			if c.fits {
				set(t, m, c.target)
				set(t, m, plain) // nothing of it is left
				continue
			}
			writes(t, m.Machine, "more than there is room for", 0, func() {
				err := m.Booter.SetISCSIBoot(within(t), &Fence{}, m.Node, c.target)
				if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want ErrInvalid with %q", err, c.says)
				}
			})
		}
	})
	t.Run("what is already so is not written", func(t *testing.T) {
		m := start(t)
		writes(t, m.Machine, "clear without a target", 0, func() { clear(t, m) })
		set(t, m, plain)
		writes(t, m.Machine, "the same target", 0, func() { set(t, m, plain) })
		clear(t, m)
		writes(t, m.Machine, "clear again", 0, func() { clear(t, m) })
	})
	t.Run("it asks the fence", func(t *testing.T) {
		m, f := start(t), &Fence{}
		f.Lose()
		for what, err := range map[string]error{"SetISCSIBoot": m.Booter.SetISCSIBoot(within(t), f, m.Node, plain)} {
			if !errors.Is(err, driver.ErrFenced) || m.Writes() > 0 {
				t.Errorf("%s: %v after %d writes", what, err, m.Writes())
			}
		}
		set(t, m, plain)
		before := m.Writes()
		if err := m.Booter.ClearISCSIBoot(within(t), f, m.Node); !errors.Is(err, driver.ErrFenced) || m.Writes() > before {
			t.Errorf("ClearISCSIBoot: %v after %d writes", err, m.Writes()-before)
		}
	})
	t.Run("a lost answer is unknown, and then read back", func(t *testing.T) {
		m := start(t)
		m.Lose()
		failing(t, m.Machine, "SetISCSIBoot", m.Booter.SetISCSIBoot(within(t), &Fence{}, m.Node, plain), driver.ErrUnknown)
		set(t, m, plain)
	})
	t.Run("a target that is none is refused", func(t *testing.T) {
		m := start(t)
		for _, bad := range []driver.ISCSITarget{{}, {Host: "192.0.2.1", Port: 3260, IQN: "volume"}, {Host: "192.0.2.1", IQN: plain.IQN}, {Host: "192.0.2.1", Port: 3260, IQN: plain.IQN, User: "u"},
			{Host: "192.0.2.1", Port: 3260, IQN: plain.IQN, TargetUser: "u", TargetSecret: "s"}, {Host: "192.0.2.1", Port: 3260, IQN: plain.IQN, Second: driver.ISCSIPath{Host: "192.0.2.2"}},
			{Host: "san.example", Port: 3260, IQN: plain.IQN}, {Host: "192.0.2.1", Port: 3260, IQN: plain.IQN, Second: driver.ISCSIPath{Host: "2001:db8::2", Port: 3260, IQN: plain.IQN}}} {
			writes(t, m.Machine, "a bad target", 0, func() {
				if err := m.Booter.SetISCSIBoot(within(t), &Fence{}, m.Node, bad); !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%+v: %v, want ErrInvalid", bad, err)
				}
			})
		}
	})
	t.Run("secrets are in no error", func(t *testing.T) {
		m := start(t)
		m.Deny()
		err := m.Booter.SetISCSIBoot(within(t), &Fence{}, m.Node, chap)
		failing(t, m.Machine, "SetISCSIBoot", err, driver.ErrDenied)
		secret := *m.Machine
		secret.Secret = chap.Secret
		told(t, &secret, "SetISCSIBoot", err)
	})
}
