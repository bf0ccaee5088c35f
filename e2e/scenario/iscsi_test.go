package scenario

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// byISCSI has rackd write the image.
func byISCSI(m *operator.Machine) { m.Interfaces = map[string]string{"deploy": "iscsi"} }

func needsTime(t *testing.T) {
	t.Helper()
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it takes a minute: make hardware runs it")
	}
}

// A machine goes from nothing to its instance, whose image rackd writes to the disk that the agent exports.
func TestDeployByISCSI(t *testing.T) {
	needsTime(t)
	for _, name := range []string{"bios-0", "uefi-0"} {
		ctx := limit(t, 10*time.Minute)
		o := theRack.Operator
		id := enrolled(ctx, t, name, byISCSI)
		if err := o.MakeAvailable(ctx, id); err != nil {
			t.Fatal(err)
		}
		if err := o.SetImage(ctx, id, qcow2()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		deployed(ctx, t, id, name)
		t.Logf("%s: %.0f s from the request to the instance's words", name, time.Since(began).Seconds())
		history, err := o.History(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, h := range history {
			all = append(all, h.Event)
		}
		if said := strings.Join(all, "\n"); !strings.Contains(said, "is exported to this rackd") || strings.Contains(said, "iqn.") {
			t.Errorf("the history says\n%s", said)
		} else {
			t.Log(said)
		}
		undeployed(ctx, t, id)
	}
}

// The same Debian as by the deploy interface direct, by BIOS and by UEFI. The agent lays the disk out, and rackd writes the root partition.
func TestPartitionImageByISCSI(t *testing.T) {
	needsTime(t)
	for name, want := range map[string][]string{
		"part-0": {"firmware bios", "root /dev/vda4 ext4", "root=UUID=", "label ephemeral0 /dev/vda1 ext4", "label swap1 /dev/vda2 swap", "part-instance"},
		"part-1": {"firmware uefi", "root /dev/vda5 ext4", "root=UUID=", "label efi-part /dev/vda1 vfat", "label ephemeral0 /dev/vda2 ext4", "label swap1 /dev/vda3 swap", "part-instance"},
	} {
		t.Run(name, func(t *testing.T) { partitionImage(t, name, byISCSI, want) })
	}
}

// The rackd that writes dies in the middle. The other one ends its session, goes on, and the instance boots.
func TestWriterByISCSIDies(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 10*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, "bios-0", byISCSI)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, long()); err != nil {
		t.Fatal(err)
	}
	console := consoleFromNow(t, "bios-0")
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	dead := theRack.Rackd(midWrite(ctx, t, id))
	dead.Kill()
	t.Cleanup(func() { revive(t, dead) })
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatal(err)
	}
	undeployed(ctx, t, id)
}

// notWritten looks that a node's deploy has ended with all of these words, and that neither the node nor its history says that the image is
// on the disk.
func notWritten(ctx context.Context, t *testing.T, id, lastError string, want ...string) {
	t.Helper()
	t.Log(lastError)
	for _, w := range want {
		if !strings.Contains(lastError, w) {
			t.Errorf("the error does not say %q: %s", w, lastError)
		}
	}
	said := historyOf(ctx, t, id)
	if strings.Contains(said, "write: ") || !strings.Contains(said, "broke off after") {
		t.Errorf("the history says that the image was written, or does not say that the write broke off:\n%s", said)
	}
	n, err := theRack.Operator.Show(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if uuid := n.DriverInternalInfo["root_uuid_or_disk_id"]; uuid != nil {
		t.Errorf("the node has the root device %v", uuid)
	}
}

// The machine is switched off in the middle of rackd's write to it, and its target and its agent are gone. The deploy fails, and says which
// write broke off where. The next deploy succeeds.
func TestMachineDiesInAWriteByISCSI(t *testing.T) {
	needsTime(t)
	const name = "bios-0"
	ctx := limit(t, 20*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, name, byISCSI)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, long()); err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	midWrite(ctx, t, id)
	began := time.Now()
	if err := theRack.Serving.Machines[name].Stop(ctx); err != nil {
		t.Fatal(err)
	}
	n, err := o.Wait(ctx, id, provision.DeployFail)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("deploy failed %.0f s after the machine was switched off", time.Since(began).Seconds())
	notWritten(ctx, t, id, n.LastError, "deploy.write_image", "/dev/vda, which the agent exports at 10.77.", ":3260, broke off after", " of 154 MB", id)
	if err := o.WaitFree(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(ctx, id, "active", nil); err != nil { // the node is not stuck
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	undeployed(ctx, t, id)
}

// The machine's link goes down in the middle of rackd's write, and comes back. The write goes on, and the instance boots.
func TestLinkLostInAWriteByISCSI(t *testing.T) {
	needsTime(t)
	const name = "bios-0"
	ctx := limit(t, 20*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, name, byISCSI)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, long()); err != nil {
		t.Fatal(err)
	}
	console := consoleFromNow(t, name)
	if err := o.Ask(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	midWrite(ctx, t, id)
	linked(ctx, t, name, false)
	events.wait(ctx, t, "end of the session", func(e work.Event) bool {
		for _, l := range e.Lines() {
			if e.Node == id && l.Phase == "iscsi" && strings.Contains(l.Detail, "broke off after") {
				return true
			}
		}
		return false
	})
	linked(ctx, t, name, true)
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatal(err)
	}
	t.Log(historyOf(ctx, t, id))
	undeployed(ctx, t, id)
}

// linked pulls the cable of a machine's network card, or puts it in again.
func linked(ctx context.Context, t *testing.T, name string, up bool) {
	t.Helper()
	m, err := theRack.Machine(name)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	to := map[bool]string{true: "up", false: "down"}[up]
	if out, err := ns.Command(ctx, "ip", "link", "set", m.Tap, to).CombinedOutput(); err != nil {
		t.Fatalf("ip link set %s %s: %v: %s", m.Tap, to, err, out)
	}
	if !up {
		t.Cleanup(func() {
			if out, err := ns.Command(context.WithoutCancel(ctx), "ip", "link", "set", m.Tap, "up").CombinedOutput(); err != nil {
				t.Errorf("%s stays without a link: %v: %s", name, err, out)
			}
		})
	}
}
