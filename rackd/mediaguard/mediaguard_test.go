package mediaguard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// boot is a boot interface that keeps media of instances.
type boot struct {
	driver.Boot
	kept int
	err  error
	puts bool
}

var _ driver.InstanceMediumMaker = (*boot)(nil)

func (b *boot) ReadyInstance(context.Context, *driver.Task) error { return nil }
func (b *boot) InstanceMedium(*node.Document, map[string]string) (bootorder.Load, bool) {
	return bootorder.Load{}, true
}
func (*boot) DriveNames(*node.Document, map[string]string) (string, string)      { return "", "" }
func (b *boot) InstanceMedia(*node.Document, map[string]string) (string, string) { return "w", "" }
func (b *boot) DesertedInstance(*driver.Task) bool                               { return false }
func (b *boot) KeepInstance(_ context.Context, t *driver.Task) error {
	b.kept++
	if url, err := t.Media.InstanceURL(t.Media.Base(), "w", driver.InstanceBoot); err != nil || url != "http://here/"+t.Node.Group+"/n/w/boot" {
		return errors.New("the URL is " + url)
	}
	if b.puts {
		t.Record.Phase("virtual media", "an image, from here")
		t.Record.Observe(hardware.Observation{InstanceFiles: map[string]string{"medium": "w"}})
	}
	return errors.Join(t.Fence.Check(), b.err)
}

type rack struct {
	lines []string
	seen  int
	lost  bool
}

func (r *rack) Check() error {
	if r.lost {
		return driver.ErrFenced
	}
	return nil
}
func (*rack) Work() string                        { return "" }
func (*rack) Epoch() uint64                       { return 0 }
func (r *rack) Fence(*node.Document) driver.Fence { return r }
func (r *rack) TellLog(_ context.Context, _ *node.Document, o *hardware.Observation, lines []work.Line) error {
	if !o.Empty() {
		r.seen++
	}
	for _, l := range lines {
		r.lines = append(r.lines, l.Phase+": "+l.Detail)
	}
	return nil
}

type media struct{}

func (media) Base() string                       { return "http://here" }
func (media) TLSBase() string                    { return "" }
func (media) Served(base, group string) bool     { return base == "http://here" && group == "g" }
func (media) TLSCertificates() ([]string, error) { return nil, nil }
func (media) InstanceURL(base, group, node, work string, part driver.InstancePart) (string, error) {
	return strings.Join([]string{base, group, node, work, string(part)}, "/"), nil
}

func with(t *testing.T, b driver.Boot) *driver.Hardware {
	t.Helper()
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: hw.Power()}}, "management": {{Name: "m", Impl: hw.Management()}},
		"boot": {{Name: "b", Impl: b}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	if hw, err = reg.Resolve(&node.Document{Driver: "t"}); err != nil {
		t.Fatal(err)
	}
	return hw
}

func active(at string) *node.Document {
	return &node.Document{UUID: "n", Group: "g", State: provision.Active, InstanceFiles: map[string]string{node.FileMedium: "w", node.FileMediumAt: at}}
}

func TestWhoIsLookedAfter(t *testing.T) {
	keeps, other := with(t, &boot{Boot: networkboot.IPXE()}), with(t, networkboot.IPXE())
	for name, c := range map[string]struct {
		hw     *driver.Hardware
		change func(*node.Document)
		want   bool
	}{
		"active":               {keeps, func(*node.Document) {}, true},
		"in maintenance":       {keeps, func(n *node.Document) { n.Maintenance = true }, false},
		"deploy failed":        {keeps, func(n *node.Document) { n.State = provision.DeployFail }, false},
		"on its disk":          {keeps, func(n *node.Document) { n.InstanceFiles = nil }, false},
		"another boot":         {other, func(*node.Document) {}, false},
		"files by the network": {keeps, func(n *node.Document) { n.InstanceFiles = map[string]string{"kernel": "k"} }, false},
	} {
		n := active("")
		c.change(n)
		if got := Task(&rack{}, media{}, nil).Wants(n, c.hw); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A BMC is asked seldom while a rackd lives there, and at once where none does. The history has it once a day, central each time.
func TestWhenItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := &boot{Boot: networkboot.IPXE(), puts: true}, &rack{}
		hw, task := with(t, b), Task(r, media{}, nil)
		for range 31 {
			if err := task.Do(t.Context(), active("http://here"), hw); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if b.kept != 3 || len(r.lines) != 1 || r.seen != 3 {
			t.Errorf("%d looks in half an hour, lines %q, told %d times", b.kept, r.lines, r.seen)
		}
		for range 2 {
			if err := task.Do(t.Context(), active("http://gone"), hw); err != nil {
				t.Fatal(err)
			}
		}
		if b.kept != 5 {
			t.Errorf("%d looks where the rackd has gone", b.kept-3)
		}
		moved := active("http://here")
		moved.Group = "another"
		if err := task.Do(t.Context(), moved, hw); err != nil || b.kept != 6 {
			t.Errorf("%d looks where the node has come to another group: %v", b.kept-5, err)
		}
	})
}

func TestWhatFails(t *testing.T) {
	b, r := &boot{Boot: networkboot.IPXE(), err: errors.New("no answer")}, &rack{}
	hw, task := with(t, b), Task(r, media{}, nil)
	for range 2 {
		if err := task.Do(t.Context(), active("http://here"), hw); err == nil {
			t.Error("no error")
		}
	}
	if b.kept != 2 || len(r.lines) != 1 || !strings.Contains(r.lines[0], "no answer") {
		t.Errorf("%d looks, lines %q", b.kept, r.lines)
	}
	b.err = nil
	lost := &rack{lost: true}
	if err := Task(lost, media{}, nil).Do(t.Context(), active(""), hw); err != nil || len(lost.lines) > 0 {
		t.Errorf("work has begun: %v, %q", err, lost.lines)
	}
}

// A node that has left the group is forgotten. One that comes back is looked at, and told of, as a new one.
func TestForgetsNodes(t *testing.T) {
	g := &guard{looked: map[string]time.Time{"a": {}, "b": {}}, told: map[string]time.Time{"a": {}, "b": {}}}
	g.forget("a")
	if len(g.looked) != 1 || len(g.told) != 1 {
		t.Errorf("it keeps %v and %v", g.looked, g.told)
	}
	if Task(&rack{}, media{}, nil).Gone == nil {
		t.Error("the task is not told of nodes that have gone")
	}
}
