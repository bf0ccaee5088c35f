package disk

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

var (
	deploy = By{Boot: "b1", Work: "w1", Command: "w1/write_image"}
	errOut = errors.New("power cut")
)

func nothing() error { return nil }

func kinds(j *journal.Journal) (out []journal.Kind) {
	for _, r := range j.After(0, 0) {
		out = append(out, r.Kind)
	}
	return out
}

func TestWhatADiskHolds(t *testing.T) {
	cut, cancel := context.WithCancelCause(context.Background())
	for _, c := range []struct {
		name string
		act  func(d *Disk) error
		err  error
		want Content
		told journal.Kind
	}{
		{"written", func(d *Disk) error { return d.Write(t.Context(), deploy, "i2", nothing) }, nil, Image, journal.WriteEnded},
		{"failed", func(d *Disk) error { return d.Write(t.Context(), deploy, "i2", func() error { return errOut }) }, errOut, Empty, journal.WriteFailed},
		{"torn", func(d *Disk) error {
			return d.Write(cut, deploy, "i2", func() error { cancel(errOut); return context.Canceled })
		}, errOut, Torn, journal.WriteTorn},
		{"erased", func(d *Disk) error { return d.Erase(t.Context(), deploy, nothing) }, nil, Empty, journal.Erased},
		{"half erased", func(d *Disk) error { return d.Erase(cut, deploy, nothing) }, errOut, Torn, ""},
	} {
		j := journal.New(0)
		d := New("m", j)
		if err := d.Write(t.Context(), By{Work: "w0"}, "i1", nothing); err != nil {
			t.Fatal(err)
		}
		before := len(kinds(j))
		if err := c.act(d); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if got, _ := d.Holds(); got != c.want {
			t.Errorf("%s: the disk holds %s, want %s", c.name, got, c.want)
		}
		if image, ok := d.Boot(); ok != (c.want == Image) || ok && image != "i2" {
			t.Errorf("%s: boots %q, %t", c.name, image, ok)
		}
		if told := kinds(j)[before:]; slices.Contains(told, journal.Violation) || c.told != "" && !slices.Contains(told, c.told) {
			t.Errorf("%s: the journal says %v", c.name, told)
		}
	}
}

func TestViolations(t *testing.T) {
	j := journal.New(0)
	d := New("m", j)
	err := d.Write(t.Context(), deploy, "i", func() error { return d.Erase(t.Context(), By{Work: "w2"}, nothing) })
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Counts("m")[journal.Violation]; got != 1 {
		t.Errorf("%d violations of two writes at once, want 1: %v", got, kinds(j))
	}
	d.Boot()
	if err := d.Write(t.Context(), deploy, "i", nothing); err != nil {
		t.Fatal(err)
	}
	if got := j.Counts("m")[journal.Violation]; got != 2 {
		t.Errorf("%d violations after a booted instance was overwritten by its own work, want 2", got)
	}
	d.Boot()
	if err := d.Write(t.Context(), By{Work: "w3"}, "i", nothing); err != nil {
		t.Fatal(err)
	}
	if got := j.Counts("m")[journal.Violation]; got != 2 {
		t.Errorf("%d violations after a new deploy, want 2 still", got)
	}
}

// An ephemeral partition is lost with each write and each erasure, unless the writer leaves it where it is.
func TestEphemeralPartition(t *testing.T) {
	d := New("m", journal.New(0))
	d.Partition(2048, "gpt")
	was := d.Ephemeral()
	if want := (Ephemeral{MB: 2048, Table: "gpt", Made: 1}); was != want {
		t.Fatalf("%+v, want %+v", was, want)
	}
	d.Begin(deploy, "i2")
	if now := d.Ephemeral(); now.MB != 0 {
		t.Errorf("a write that begins leaves %+v", now)
	}
	d.Keep(was)
	if err := d.End(t.Context(), deploy, "i2", nil); err != nil || d.Ephemeral() != was {
		t.Errorf("a write that keeps it leaves %+v, %v", d.Ephemeral(), err)
	}
	if err := d.Erase(t.Context(), deploy, nothing); err != nil || d.Ephemeral().MB != 0 {
		t.Errorf("an erasure leaves %+v, %v", d.Ephemeral(), err)
	}
}
