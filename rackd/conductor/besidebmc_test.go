package conductor

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// resettable is a machine whose vendor interface resets the BMC, and which notes what else is asked of that.
type resettable struct {
	*machine
	asked *[]string
}

func (r resettable) VendorMethods() []driver.VendorMethod {
	return []driver.VendorMethod{{Method: driver.Method{Name: "bmc_reset", HTTPMethods: []string{"POST"}, Async: true}, Once: true,
		Call: func(_ context.Context, f driver.Fence, _ *node.Document, _ map[string]any) (any, error) {
			return nil, r.note(f, "bmc_reset")
		}}}
}

func (resettable) DriverMethods() []driver.DriverMethod { return nil }

func (r resettable) InjectNMI(_ context.Context, f driver.Fence, _ *node.Document) error {
	return r.note(f, "nmi")
}

func (r resettable) SetBootMode(_ context.Context, f driver.Fence, _ *node.Document, mode string) error {
	return r.note(f, mode)
}

func (r resettable) StartConsole(_ context.Context, f driver.Fence, _ *node.Document) error {
	return r.note(f, "console")
}

func (r resettable) StopConsole(context.Context, driver.Fence, *node.Document) error { return nil }

func (resettable) Console(context.Context, *node.Document) (map[string]any, error) { return nil, nil }

func (r resettable) note(f driver.Fence, what string) error {
	if err := f.Check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.asked = append(*r.asked, what)
	return nil
}

// What a request asks of a BMC that writes firmware is refused, as a change of power is: a vendor's method that resets the BMC, a boot
// mode, a boot device, an NMI. A console is not, and all of it is done when the BMC has ended.
func TestRequestsBesideABMCsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		after := slowly("after", time.Hour, new([]string))
		after.NoRamdisk = true
		m := &machine{power: driver.PowerOn, clean: []driver.Step{flashing(20*time.Minute, func(time.Duration) string { return "running" }, nil), after}}
		named := []driver.Named{{Name: "m", Impl: resettable{m, &asked}}}
		reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
			"power": named, "management": named, "boot": named, "deploy": named, "vendor": named, "console": named}})
		if err != nil {
			t.Fatal(err)
		}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) { cfg.Hardware = reg })
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash"}, {Interface: "deploy", Step: "after"}}})
		time.Sleep(time.Minute)
		all := func() (refused []string) {
			reset := testKey.Seal(seal.Label{Kind: seal.VendorData, Of: nodeA, Work: s.Work(nodeA).Doc.ID + "!"}, "{}")
			console := true
			for _, ch := range []work.Change{{Vendor: &work.VendorCall{Method: "bmc_reset", HTTPMethod: "POST", Data: reset}}, {BootMode: "uefi"}, {Console: &console}} {
				s.errand(nodeA, work.Args{Change: &ch})
				time.Sleep(time.Minute)
				if told := s.errands(); told[len(told)-1].Error != "" {
					refused = append(refused, told[len(told)-1].Error)
				}
			}
			for method, args := range map[ask.Method]string{ask.InjectNMI: "{}", ask.SetBootDevice: `{"boot_device":"disk"}`} {
				synctest.Wait() // the flow's look at its BMC, at this very moment, has ended
				if r := answersOf(c).Answer(t.Context(), ask.Request{Method: method, Node: nodeA, Args: json.RawMessage(args)}); r.Error != nil {
					if r.Error.Status != http.StatusBadRequest {
						t.Errorf("%s is answered with %+v", method, r.Error)
					}
					refused = append(refused, r.Error.Message)
				}
			}
			return refused
		}
		refused := all()
		for _, why := range refused {
			if !strings.Contains(why, "its BMC is at work (running)") || !strings.Contains(why, "when step deploy.flash has ended") {
				t.Errorf("refused with %q", why)
			}
		}
		if len(refused) != 4 || strings.Join(asked, " ") != "console" || len(m.written()) > 0 {
			t.Errorf("the BMC was asked for %q and %q in the middle of its work; refused: %q", asked, m.written(), refused)
		}
		time.Sleep(20 * time.Minute)
		asked = nil
		if refused := all(); len(refused) > 0 || len(asked) != 4 || len(m.written()) != 1 {
			t.Errorf("the BMC has ended its work, and was asked for %q and %q; refused: %q", asked, m.written(), refused)
		}
	})
}
