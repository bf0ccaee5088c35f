package scenario

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
)

// The instance's kernel says on the console what it was started with.
var ownCommandLine = regexp.MustCompile(`Kernel command line: .*root=/dev/ram0 .*ironyard.test=own.*`)

// A machine runs a kernel and a ramdisk of its own from the network, and runs them again after a reboot, also when one of
// the rackds is gone. make hardware runs it.
func TestRamdiskByNetwork(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes minutes: make hardware runs it")
	}
	for _, name := range []string{"bios-0", "uefi-0"} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, 8*time.Minute)
			o := theRack.Operator
			id := enrolled(ctx, t, name, func(m *operator.Machine) { m.Interfaces = map[string]string{"deploy": "ramdisk"} })
			if err := o.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			for field, value := range map[string]string{"kernel": theRack.ImageURL(ownKernel), "ramdisk": theRack.ImageURL(ownRamdisk), "ramdisk_kernel_arguments": "console=ttyS0 ironyard.test=own"} {
				if err := o.Set(ctx, id, "/instance_info/"+field, value); err != nil {
					t.Fatal(err)
				}
			}
			runs := func(after string) {
				t.Helper()
				console, began := consoleFromNow(t, name), time.Now()
				switch after {
				case "the deploy":
					if err := o.Ask(ctx, id, "active", nil); err != nil {
						t.Fatal(err)
					}
					if _, err := o.Wait(ctx, id, provision.Active); err != nil {
						t.Fatal(err)
					}
				default:
					if err := o.Power(ctx, id, "rebooting"); err != nil {
						t.Fatal(err)
					}
				}
				line, err := console.Wait(ctx, ownCommandLine)
				if err != nil {
					t.Fatalf("after %s no kernel of the instance on the console: %v", after, err)
				}
				if strings.Contains(line, "ipa-api-url") {
					t.Errorf("the instance is told whom agents call: %s", line)
				}
				t.Logf("after %s its kernel runs %.1f s later", after, time.Since(began).Seconds())
			}
			runs("the deploy")
			alone(t) // the rackd that is left may be the one that has not deployed it
			runs("a reboot")
			if err := o.Ask(ctx, id, "deleted", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Available); err != nil {
				t.Fatal(err)
			}
		})
	}
}
