package deploy

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A rebuild that keeps the ephemeral partition has lost its power while it wrote the table. The next one finds it by the table's copy.
func TestTheEphemeralPartitionIsPreservedByTheTablesCopy(t *testing.T) {
	parts := agentapi.Partitions{RootMB: 8, EphemeralMB: 5, DiskLabel: "gpt", PreserveEphemeral: true}
	d, params, path := forPartition(t, rootImage(t), 32, false, parts)
	first := parts
	first.PreserveEphemeral = false
	l, err := plan(diskOf(t, path), &first, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	at := l.places[forEphemeral]
	kept := digest(t, path, at.Start, at.Size)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := tableOf(t, path, l)
	for _, damage := range []int64{512 + 60, 1024 + 5} { // a header, then entries
		if err := table.Write(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xa5, 0x5a}, damage); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
			t.Fatalf("damage at %d: %v", damage, err)
		}
		if digest(t, path, at.Start, at.Size) != kept {
			t.Error("the ephemeral partition was written to")
		}
	}
}

// tableOf is the table of a layout, on its disk.
func tableOf(t *testing.T, path string, l layout) partition.Table {
	t.Helper()
	table, err := partition.New(diskOf(t, path), l.kind, l.want)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
