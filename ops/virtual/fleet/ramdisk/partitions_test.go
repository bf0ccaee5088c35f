package ramdisk

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A simulated machine refuses the partitions that a real agent refuses: those that do not fit, and an ephemeral one that is to stay and is
// not there. A rebuild that keeps it leaves it as it was made, and another makes a new one.
func TestPartitionsAreRefused(t *testing.T) {
	r := &run{Agent: &Agent{Disk: disk.New("m", journal.New(0)), Inventory: agentapi.Inventory{Disks: []agentapi.Disk{{Name: "/dev/vda", Size: 8 << 30}}}}}
	by := disk.By{Work: "w"}
	wants := agentapi.Partitions{RootMB: 1024, EphemeralMB: 2048}
	keeps := wants
	keeps.PreserveEphemeral = true
	other := keeps
	other.EphemeralMB = 1024
	write := func(p agentapi.Partitions) {
		t.Helper()
		if err := r.refusesParts(&p, 1<<20); err != nil {
			t.Fatal(err)
		}
		r.begins(by, "i", &p)
		if err := r.Disk.End(t.Context(), by, "i", nil); err != nil {
			t.Fatal(err)
		}
		r.partitioned(&p, &agentapi.PrepareImageResult{})
	}
	refused := func(p *agentapi.Partitions, bytes int64, why string) {
		t.Helper()
		if err := r.refusesParts(p, bytes); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v with an image of %d bytes: %v, want %q", p, bytes, err, why)
		}
	}
	refused(nil, 9<<30, "and the disk 8589934592")
	refused(&agentapi.Partitions{RootMB: 8192}, 0, "do not fit")
	refused(&wants, 2<<30, "Root partition is too small")
	refused(&keeps, 0, "preserve_ephemeral is set")
	write(wants)
	refused(&other, 0, "preserve_ephemeral is set")
	write(keeps)
	if has, want := r.Disk.Ephemeral(), (disk.Ephemeral{MB: 2048, Made: 1}); has != want {
		t.Errorf("the partition that was to stay is %+v, want %+v", has, want)
	}
	write(wants)
	if made := r.Disk.Ephemeral().Made; made != 2 {
		t.Errorf("an ephemeral partition was made %d times, want 2", made)
	}
}
