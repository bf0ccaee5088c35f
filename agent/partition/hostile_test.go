package partition

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// failing is a disk with a cache of its own, whose power goes at some write: any of what was not flushed is lost, also parts of a
// write, by sectors.
type failing struct {
	memory
	stable  []byte
	pending []written
	left    int // writes until the power goes
}

type written struct {
	p   []byte
	off int64
}

var errPower = errors.New("the power is out")

func (f *failing) WriteAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errPower
	}
	f.pending = append(f.pending, written{bytes.Clone(p), off})
	return f.memory.WriteAt(p, off)
}

// Flush implements flusher.
func (f *failing) Flush() error {
	for _, w := range f.pending {
		copy(f.stable[w.off:], w.p)
	}
	f.pending = nil
	return nil
}

// after is the disk when the power is back.
func (f *failing) after(r *rand.Rand) *memory {
	for _, w := range f.pending {
		for at := 0; at < len(w.p); at += int(f.sector) {
			if r.IntN(2) == 0 {
				copy(f.stable[w.off+int64(at):], w.p[at:min(at+int(f.sector), len(w.p))])
			}
		}
	}
	return &memory{f.stable, f.sector}
}

// The power goes in the middle of a new table, by which a partition of before is kept. Its place is known all the same, from the table
// or from its copy, so that the next try keeps it, too.
func TestAKeptPartitionOutlivesThePower(t *testing.T) {
	t.Parallel()
	layout := func(root, swap int64, id string) []Wanted {
		return []Wanted{{Label: "bios-boot", Type: TypeBIOSBoot, Size: mib}, {Label: "ephemeral0", Type: TypeLinux, Size: 2 * mib, GUID: id},
			{Label: "swap1", Type: TypeSwap, Size: swap}, {Label: "root", Type: TypeLinux, Size: root}}
	}
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := &failing{memory: memory{make([]byte, 12*mib), 512}, left: 1 << 30}
		d.stable = make([]byte, len(d.data))
		before, err := New(d, GPT, layout(3*mib, 2*mib, ""))
		if err == nil {
			err = errors.Join(before.Write(), d.Flush())
		}
		if err != nil {
			t.Fatal(err)
		}
		kept := before.Partitions()[1]
		d.left = r.IntN(6)
		now, err := New(d, GPT, layout(4*mib, 3*mib, kept.GUID))
		if err != nil {
			t.Fatal(err)
		}
		if err := now.Write(); (err == nil) != (d.left >= 0) {
			t.Fatal(err)
		}
		disk := d.after(r)
		var found []Partition
		table, err := Read(disk)
		if err == nil {
			found = table.Partitions()
		} else if found, err = Copy(disk); err != nil {
			t.Fatalf("seed %d: neither the table nor its copy can be read: %v", seed, err)
		}
		if len(found) < 2 || found[1] != kept {
			t.Fatalf("seed %d: the partition is %+v, and was %+v", seed, found, kept)
		}
	}
}
