package iscsideploy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// dying is where tgtd is reached through which dies once it was sent so many bytes.
type dying struct {
	t     *testing.T
	after int64
	once  sync.Once
	dead  chan struct{} // closed once it has died
}

// through returns the port of a relay to a target. It kills that target, unless one has died before.
func (d *dying) through(address string, kill func()) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				from.Close()
				continue
			}
			go func() {
				if _, err := io.CopyN(to, from, d.after); err == nil {
					d.once.Do(func() { kill(); close(d.dead) })
				}
				_, _ = io.Copy(to, from)
				to.Close()
			}()
			go func() {
				_, _ = io.Copy(from, to)
				from.Close()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// A target dies in the middle of a write. If it comes back, the image is whole in the end. If it does not, the step fails with what it was
// writing, where, and why, and the disk does not boot.
func TestATargetDiesInTheMiddle(t *testing.T) {
	img := content()
	for name, back := range map[string]bool{"and comes back": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, img, nil)
			d := &dying{t: t, after: 6 << 20, dead: make(chan struct{})}
			r.agent.through = d.through
			err := r.through(r.iface)
			if !errors.Is(err, driver.ErrUnreachable) { // so that the step is run again
				t.Fatalf("the write ends with %v", err)
			}
			<-d.dead
			t.Log(err)
			for _, word := range []string{"node web1", "/dev/vda", "127.0.0.1:", " of 20 MB"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error lacks %q: %v", word, err)
				}
			}
			told := strings.Join(r.Phases, "\n")
			if !strings.Contains(told, "the write to disk /dev/vda, which the agent exports at 127.0.0.1:") || strings.Contains(told, "iqn.") {
				t.Errorf("the history says\n%s", told)
			}
			if back {
				if err := r.through(r.iface); err != nil {
					t.Fatal(err)
				}
				r.holds(img)
				if len(r.agent.starts) != 2 {
					t.Errorf("the disk was exported %d times", len(r.agent.starts))
				}
				return
			}
			// So does an agent that is off.
			r.agent.fails[agentapi.CmdStartISCSI] = errors.Join(driver.ErrUnreachable, errors.New("no route to host"))
			err = r.through(r.iface)
			if !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("an agent that is off: %v", err)
			}
			t.Log(err)
			for _, word := range []string{"Failed to start the iSCSI target to deploy the node 5f0c. Error: ", "no route to host", "broke off", "127.0.0.1:", "/dev/vda", " of 20 MB"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the last error lacks %q: %v", word, err)
				}
			}
			if got, err := os.ReadFile(r.agent.disk); err != nil || bytes.Contains(got[:headSize], img[:4096]) {
				t.Errorf("half an image boots (%v)", err)
			}
			if strings.Contains(r.HandleText(), `"whole":true`) || r.agent.finish.Disk != "" {
				t.Errorf("the image is said to be written: handle %s, finished %+v", r.HandleText(), r.agent.finish)
			}
		})
	}
}
