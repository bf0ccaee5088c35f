package scenario

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
	"github.com/ironyard/ironyard/protocol/provision"
)

// pull ejects what is in the virtual CD drive of a machine, at its BMC and behind rackd's back.
func pull(ctx context.Context, name string) error {
	m, err := theRack.Machine(name)
	if err != nil {
		return err
	}
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: ns.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.BMCURL()+"/redfish/v1/Managers/1/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	r.SetBasicAuth(m.BMCUser, m.BMCPassword)
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the BMC of %s answers %s", name, resp.Status)
	}
	return nil
}

// pulledAtStarts pulls the medium at the first so many starts of a machine, just before its BMC switches it on.
func pulledAtStarts(ctx context.Context, t *testing.T, name string, starts int32) *atomic.Int32 {
	t.Helper()
	var pulled atomic.Int32
	bmc := theRack.BMC(name)
	bmc.Faults.Spoil(func(r *http.Request) vbmc.Spoilt {
		if strings.HasSuffix(r.URL.Path, "ComputerSystem.Reset") && bmc.Inserted() != "" && pulled.Load() < starts {
			pulled.Add(1)
			if err := pull(ctx, name); err != nil {
				t.Errorf("pull the medium: %v", err)
			}
		}
		return vbmc.Sound
	})
	t.Cleanup(func() { bmc.Faults.Spoil(nil) })
	return &pulled
}

// toMedium is a node that is available, with an image, and boots its ramdisk by virtual media.
func toMedium(ctx context.Context, t *testing.T, name string, change func(*operator.Machine)) string {
	t.Helper()
	o := theRack.Operator
	id := enrolled(ctx, t, name, func(m *operator.Machine) {
		byMedium("redfish-virtual-media")(m)
		if change != nil {
			change(m)
		}
	})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	return id
}

// says waits for the end of a deploy that was begun, in a state, and for lines of the node's history. Nothing stays in the drives.
func says(ctx context.Context, t *testing.T, id, name string, want ...string) {
	t.Helper()
	o := theRack.Operator
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	if in := theRack.BMC(name).Inserted(); in != "" {
		t.Errorf("after the deploy the drive holds %s", in)
	}
	history, err := o.History(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, h := range history {
		all = append(all, h.Event)
	}
	said := strings.Join(all, "\n")
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("the history does not say %q:\n%s", w, said)
		}
	}
	undeployed(ctx, t, id)
	empty(t, name)
}

func hardwareOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes a minute: make hardware runs it")
	}
}

// A medium that is pulled between its insertion and the machine's start is put in again, and the machine is started again.
func TestMediumPulledBeforeTheBoot(t *testing.T) {
	hardwareOnly(t)
	ctx := limit(t, 6*time.Minute)
	id := toMedium(ctx, t, "uefi-0", nil)
	pulled := pulledAtStarts(ctx, t, "uefi-0", 1)
	began := time.Now()
	if err := theRack.Operator.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	says(ctx, t, id, "uefi-0", "the medium was taken out at the BMC, whose virtual drives are: CD/DVD (empty)", "started again (1 of 2)")
	if pulled.Load() != 1 {
		t.Errorf("the medium was pulled %d times", pulled.Load())
	}
	t.Logf("%.0f s from the request to the end of the tear-down", time.Since(began).Seconds())
}

var loading = regexp.MustCompile(`loading kernel and ramdisk from the medium`)

// A medium that is pulled while the boot loader reads the ramdisk is put in again as well. make hardware does it with both firmwares.
func TestMediumPulledInTheLoad(t *testing.T) {
	hardwareOnly(t)
	for _, name := range []string{"uefi-0", "bios-0"} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, 6*time.Minute)
			id := toMedium(ctx, t, name, nil)
			console, began := consoleFromNow(t, name), time.Now()
			if err := theRack.Operator.Ask(ctx, id, "active", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := console.Wait(ctx, loading); err != nil {
				t.Fatal(err)
			}
			if err := pull(ctx, name); err != nil {
				t.Fatal(err)
			}
			says(ctx, t, id, name, "the medium was taken out at the BMC, whose virtual drives are: CD/DVD (empty)", "started again (1 of 2)")
			t.Logf("%.0f s from the request to the end of the tear-down", time.Since(began).Seconds())
		})
	}
}

// failsSoon waits for a deploy to fail, long before its deadline, and looks what its error says and that nothing stays in the drive.
func failsSoon(ctx context.Context, t *testing.T, id, name string, want ...string) {
	t.Helper()
	o, began := theRack.Operator, time.Now()
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	n, err := o.Wait(ctx, id, provision.DeployFail)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(n.LastError, w) {
			t.Errorf("the error does not say %q: %s", w, n.LastError)
		}
	}
	if in := theRack.BMC(name).Inserted(); in != "" {
		t.Errorf("after the failure the drive holds %s", in)
	}
	t.Logf("%.0f s until it failed with: %s", time.Since(began).Seconds(), n.LastError)
	undeployed(ctx, t, id)
	empty(t, name)
}

// A medium that is pulled at each start fails the deploy with an error that names it.
func TestMediumPulledAtEachStart(t *testing.T) {
	hardwareOnly(t)
	ctx := limit(t, 6*time.Minute)
	id := toMedium(ctx, t, "uefi-0", nil)
	pulledAtStarts(ctx, t, "uefi-0", 100)
	failsSoon(ctx, t, id, "uefi-0", "although it was started 3 times", "taken out at the BMC, whose virtual drives are: CD/DVD (empty)")
}

// A BMC that shows a medium which its machine cannot read fails the deploy with the BMC's reason.
func TestMediumThatTheBMCCannotRead(t *testing.T) {
	hardwareOnly(t)
	ctx := limit(t, 6*time.Minute)
	id := toMedium(ctx, t, "uefi-0", func(m *operator.Machine) {
		m.DriverInfo["external_http_url"] = "http://" + theRack.Address().String() + ":1"
	})
	failsSoon(ctx, t, id, "uefi-0", "the image cannot be read", theRack.Address().String()+" port 1")
	if said := historyOf(ctx, t, id); !strings.Contains(said, "that the machine cannot read it: the image cannot be read") {
		t.Errorf("the history does not say what the BMC said first:\n%s", said)
	}
}

// A BMC shows a medium and has none in the drive. The machine is started again once it is seen that no byte was asked for.
func TestMediumThatIsNotThere(t *testing.T) {
	hardwareOnly(t)
	ctx := limit(t, 6*time.Minute)
	id := toMedium(ctx, t, "http-0", nil)
	theRack.BMC("http-0").Faults.Hollow(1)
	t.Cleanup(func() { theRack.BMC("http-0").Faults.Hollow(0) })
	began := time.Now()
	if err := theRack.Operator.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	says(ctx, t, id, "http-0", "has not asked this rackd for a byte of it", "started again (1 of 2)")
	t.Logf("%.0f s from the request to the end of the tear-down", time.Since(began).Seconds())
}

// The rackd that serves the medium dies while the boot loader reads it, and comes back at once or does not. The deploy goes on.
func TestMediumWhoseServerGoesAwayInTheLoad(t *testing.T) {
	hardwareOnly(t)
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprintf("back=%t", back), func(t *testing.T) {
			ctx := limit(t, 10*time.Minute)
			if back { // there is no other
				alone(t)
			}
			id := toMedium(ctx, t, "uefi-0", nil)
			console, began := consoleFromNow(t, "uefi-0"), time.Now()
			if err := theRack.Operator.Ask(ctx, id, "active", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := console.Wait(ctx, loading); err != nil {
				t.Fatal(err)
			}
			n, err := theRack.Operator.Show(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			owner := theRack.Rackd(n.Conductor)
			if owner == nil {
				t.Fatalf("the node's rackd is %q", n.Conductor)
			}
			owner.Kill()
			t.Cleanup(func() { revive(t, owner) })
			want := "has gone: the machine is started again"
			if back {
				revive(t, owner)
				want = "the machine is started again (1 of 2)"
			}
			says(ctx, t, id, "uefi-0", want)
			t.Logf("%.0f s from the request to the end of the tear-down", time.Since(began).Seconds())
		})
	}
}
