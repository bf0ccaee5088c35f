package scenario

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
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
