// Package disk is the disk of a simulated machine: it holds no data, but knows what
// a boot from it would start, and tells the journal of each write.
//
// It may import ops/virtual/fleet/journal. Invariants: from the begin of a write to its good end
// the disk boots nothing; what never may happen to a disk is a Violation in the
// journal, noted by the disk itself.
package disk

import (
	"context"
	"fmt"
	"sync"

	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

// By is who writes: a command of an agent.
type By struct {
	Boot, Work, Command string
}

// Content is what lies on a disk.
type Content string

// The contents.
const (
	Empty Content = "empty"
	Torn  Content = "torn" // half an image
	Image Content = "image"
)

// Ephemeral is the partition that a rebuild may keep: its size, the kind of its partition table, and how often this disk was given one.
type Ephemeral struct {
	MB    int64
	Table string
	Made  int
}

// Disk is safe for concurrent use.
type Disk struct {
	machine string
	journal *journal.Journal

	mu      sync.Mutex
	content Content
	image   string // checksum, when content is Image
	work    string // who wrote it
	booted  bool   // since it was written
	writing int    // writes under way
	part    Ephemeral
}

// New returns the empty disk of a machine.
func New(machine string, j *journal.Journal) *Disk {
	return &Disk{machine: machine, journal: j, content: Empty}
}

// Holds returns what is on the disk, and the checksum of an image.
func (d *Disk) Holds() (Content, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.content, d.image
}

// Ephemeral is the ephemeral partition; its size is 0 where there is none.
func (d *Disk) Ephemeral() Ephemeral {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.part
}

// Keep puts back the ephemeral partition that a write has left where it was. Begin takes it for lost.
func (d *Disk) Keep(part Ephemeral) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.part = part
}

// Partition makes an ephemeral partition; one of no size is none.
func (d *Disk) Partition(mb int64, table string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.part.MB, d.part.Table = mb, table
	if mb > 0 {
		d.part.Made++
	}
}

// Write notes the write of an image that transfer does. When ctx has ended by then,
// the machine's power was cut and the write is torn.
func (d *Disk) Write(ctx context.Context, by By, image string, transfer func() error) error {
	d.Begin(by, image)
	return d.End(ctx, by, image, transfer())
}

// Begin notes that the write of an image begins, which End ends.
func (d *Disk) Begin(by By, image string) { d.begin(by, journal.WriteBegun, image) }

// End notes how a write has ended: with the image whole on the disk, with err, or with the power that ctx stands for.
func (d *Disk) End(ctx context.Context, by By, image string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing--
	switch {
	case ctx.Err() != nil:
		d.note(by, journal.WriteTorn, image, context.Cause(ctx).Error())
		return context.Cause(ctx)
	case err != nil:
		// The agent wipes both ends of a disk that it could not write.
		d.content = Empty
		d.note(by, journal.WriteFailed, image, err.Error())
		return err
	}
	d.content, d.image, d.work, d.booted = Image, image, by.Work, false
	d.note(by, journal.WriteEnded, image, "")
	return nil
}

// Erase makes the disk empty once wipe has succeeded.
func (d *Disk) Erase(ctx context.Context, by By, wipe func() error) error {
	d.begin(by, "", "")
	err := wipe()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing--
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		d.content = Empty
		d.note(by, journal.Erased, "", "")
	}
	return err
}

// begin checks that a write may begin and makes the disk unbootable.
func (d *Disk) begin(by By, kind journal.Kind, image string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kind != "" {
		d.note(by, kind, image, "")
	}
	if d.writing > 0 {
		d.note(by, journal.Violation, image, "a second write begins while one is under way")
	}
	if d.booted && d.work == by.Work {
		d.note(by, journal.Violation, image, fmt.Sprintf("work %s writes again, though the instance that it wrote has booted", by.Work))
	}
	d.writing++
	d.content, d.image = Torn, ""
	d.part.MB, d.part.Table = 0, ""
}

// Boot starts what is on the disk; ok is false when there is nothing whole.
func (d *Disk) Boot() (image string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.content != Image {
		return "", false
	}
	d.booted = true
	return d.image, true
}

func (d *Disk) note(by By, kind journal.Kind, image, detail string) {
	d.journal.Note(journal.Record{Machine: d.machine, Kind: kind, Boot: by.Boot, Work: by.Work, Command: by.Command, Image: image, Detail: detail})
}
