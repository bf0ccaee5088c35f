package ipmi

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A password that was changed at the BMC ends no session. The console, which logs in beside that, is refused twice, and then rests until a
// person asks for it.
func TestAConsoleThatIsRefusedRests(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d := newDriver(t, Options{Timeout: 2 * time.Second, Recovery: 500 * time.Millisecond})
	console, n := Console{d}, r.node("s3cret-pass", nil)
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := r.bmc.Users.Update(2, func(u *bmc.User) error { u.SetPassword([]byte("an0ther-pass")); return nil }); err != nil {
		t.Fatal(err)
	}
	refused := func() (n int) { r.set(func() { n = r.refused }); return n }
	for end := time.Now().Add(time.Minute); refused() < 2; {
		if _, err := console.OpenConsole(t.Context(), &drivertest.Fence{}, n); !errors.Is(err, driver.ErrDenied) || time.Now().After(end) {
			t.Fatalf("%v after %d refused logins, want that the second is refused, too", err, refused())
		}
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		_, err := console.OpenConsole(t.Context(), &drivertest.Fence{}, n)
		if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "baremetal node console disable b3d1") {
			t.Fatalf("a console that rests: %v", err)
		}
		if _, err := d.PowerState(t.Context(), n); err != nil {
			t.Fatalf("the session of before: %v", err)
		}
	}
	if got := refused(); got != 2 {
		t.Errorf("%d logins were refused, want 2", got)
	}
	_, err := console.OpenConsole(driver.WithTry(t.Context()), &drivertest.Fence{}, n)
	if held, is := errors.AsType[driver.Withheld](err); !is || !held.Tried() {
		t.Errorf("for a person it was not tried: %v", err)
	}
}
