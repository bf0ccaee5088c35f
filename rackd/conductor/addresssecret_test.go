package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A step is given the password in the address of its file. Nothing that is told of the step has it: not the node, which shows the step, no
// line of its history, and not the error that it ends with.
func TestThePasswordInAnAddressIsToldOfNoStep(t *testing.T) {
	const address, shown = "https://user:hunter2@files.example/bios.bin", "https://user:******@files.example/bios.bin"
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		var given string
		var told strings.Builder
		s.onPublish = func(e work.Event) {
			body, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			told.Write(body)
		}
		flash := driver.Step{Interface: "deploy", Name: "a", Kind: driver.Reattachable, NoRamdisk: true, In: driver.InClean, Takes: map[string]driver.Argument{"images": {}}}
		begun := false
		flash.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			given, _ = t.Args["images"].([]any)[0].(map[string]any)["url"].(string)
			if !begun {
				begun = true
				t.Record.Phase("firmware", "the BMC loads "+given)
				return driver.Wait(time.Minute), t.Record.SaveHandle(ctx, "begun")
			}
			return driver.Outcome{}, errors.New("the BMC cannot load " + given)
		}
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{clean: []driver.Step{flash}}, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true,
			Steps: []work.Step{{Interface: "deploy", Step: "a", Args: map[string]any{"images": []any{map[string]any{"url": address}}}}}})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if given != address {
			t.Errorf("the step was given %q", given)
		}
		for _, want := range []string{`"url":"` + shown + `"`, "loads " + shown, "cannot load " + shown} {
			if !strings.Contains(told.String(), want) {
				t.Errorf("it is not told that %s: %s", want, told.String())
			}
		}
		if strings.Contains(told.String(), "hunter2") {
			t.Errorf("it is told: %s", told.String())
		}
	})
}
