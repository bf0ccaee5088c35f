package iscsideploy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/iscsi"
)

// sized is an image of which only the size is asked.
type sized struct{ source }

func (sized) size() int64 { return 100e6 }

// A session that brought the image further than it found it takes none of the step's tries. One that did not takes one. So the tries have
// an end.
func TestASessionThatGotFurtherTakesNoTry(t *testing.T) {
	r := drivertest.NewRig()
	one := &run{w: NewWriter(Settings{}), t: r.Task(networkboot.IPXE())}
	lost := func(resume, done int64) error {
		one.h.Done = done
		out, err := one.failed(t.Context(), &transfer{src: sized{}, device: "/dev/vda", at: "127.0.0.1:3260", resume: resume, off: 90e6}, &iscsi.LostError{Err: io.EOF})
		var kept handle
		if jerr := json.Unmarshal([]byte(r.HandleText()), &kept); jerr != nil || kept.Done != done || !strings.Contains(kept.Broke, "broke off after 90 of 100 MB") {
			t.Errorf("the handle is %s (%v)", r.HandleText(), jerr)
		}
		if poll, waits := out.Waiting(); err == nil && (!waits || poll != resumeAfter) {
			t.Errorf("it goes on by %+v", out)
		}
		return err
	}
	for n := range int64(10) {
		if err := lost(n*5e6, (n+1)*5e6); err != nil {
			t.Errorf("session %d: %v", n, err)
		}
	}
	if err := lost(50e6, 50e6); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("a session that got no further: %v", err)
	}
}

// stops is an agent that refuses to wipe the disk for a while.
type stops struct {
	driver.Agent
	refuses []error
	orders  []string
}

func (a *stops) Call(_ context.Context, _ driver.Fence, _, name string, _ any) (c agentapi.Command, err error) {
	a.orders = append(a.orders, name)
	if len(a.refuses) > 0 {
		err, a.refuses = a.refuses[0], a.refuses[1:]
	}
	return c, err
}

// A disk that holds half an image is wiped once the agent has ended what it is busy with, by this rackd or by another. The step fails
// with what went wrong before.
func TestABusyAgentWipesTheDiskLater(t *testing.T) {
	r := drivertest.NewRig()
	a := &stops{refuses: []error{driver.ErrBusy, driver.ErrBusy}}
	owner := func() (driver.Outcome, error) {
		task := r.Task(networkboot.IPXE())
		task.Agent = a
		if r.HandleText() == "" {
			return (&run{w: NewWriter(Settings{}), t: task, h: handle{Disk: "one"}}).wipe(t.Context(), errors.New("the disk is bad"))
		}
		_, out, err := (&run{w: NewWriter(Settings{}), t: task}).do(t.Context())
		return out, err
	}
	for n := range 2 {
		out, err := owner()
		if poll, waits := out.Waiting(); err != nil || !waits || poll != asksEvery || !strings.Contains(r.HandleText(), "the disk is bad") {
			t.Errorf("run %d: %+v, %v, handle %s", n, out, err, r.HandleText())
		}
	}
	if _, err := owner(); err == nil || err.Error() != "the disk is bad" {
		t.Errorf("at the end: %v", err)
	}
	if got := strings.Join(a.orders, " "); got != strings.Repeat(agentapi.CmdStopISCSI+" ", 2)+agentapi.CmdStopISCSI {
		t.Errorf("orders %s", got)
	}
	a.refuses = []error{driver.ErrUnreachable}
	if _, err := owner(); err == nil || !strings.Contains(err.Error(), "the disk is bad; and the disk could not be wiped: unreachable") {
		t.Errorf("an agent that is gone: %v", err)
	}
}
