package iscsi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// SCSI status codes (SAM-5, 5.3).
const (
	good           = 0x00
	checkCondition = 0x02
	busy           = 0x08
	taskSetFull    = 0x28
)

// Sense keys (SPC-4, 4.5.6).
const (
	mediumError    = 3
	illegalRequest = 5
	unitAttention  = 6
)

// StatusError says that a disk did not carry a command out.
type StatusError struct {
	Status byte
	// Key, Code and Qualifier are those of the sense data, where there is any.
	Key, Code, Qualifier byte
}

// Error says it in SCSI's words.
func (e *StatusError) Error() string {
	if e.Status != checkCondition {
		return fmt.Sprintf("SCSI status %#02x", e.Status)
	}
	keys := []string{"no sense", "recovered error", "not ready", "medium error", "hardware error", "illegal request", "unit attention", "data protect",
		"blank check", "vendor specific", "copy aborted", "aborted command", "reserved", "volume overflow", "miscompare", "completed"}
	return fmt.Sprintf("%s (sense %x/%02x/%02x)", keys[e.Key&0x0f], e.Key, e.Code, e.Qualifier)
}

// passes reports whether the same command may do later.
func (e *StatusError) passes() bool {
	return e.Status == busy || e.Status == taskSetFull || e.Status == checkCondition && e.Key == unitAttention
}

// statusError reads a status and its sense data; nil: it is good.
func statusError(status byte, data []byte) error {
	if status == good {
		return nil
	}
	e := &StatusError{Status: status}
	if len(data) > 2 {
		sense := data[2:]
		switch {
		case len(sense) >= 14 && sense[0]&0x7e == 0x70: // fixed format
			e.Key, e.Code, e.Qualifier = sense[2]&0x0f, sense[12], sense[13]
		case len(sense) >= 4 && sense[0]&0x7e == 0x72: // descriptor format
			e.Key, e.Code, e.Qualifier = sense[1]&0x0f, sense[2], sense[3]
		}
	}
	return e
}

// tries of a command that a target puts off, and the first pause before the next; it doubles.
const (
	tries     = 6
	triesWait = 100 * time.Millisecond
)

// Disk is the disk of a session. Its methods may be called from one goroutine at a time.
type Disk struct {
	s *Session
	// size is in bytes, block the size of one logical block.
	size, block int64
	// sameMost is how many bytes one WRITE SAME may set; 0: the disk does not know the command.
	sameMost int64
}

// Pending is a command that runs.
type Pending struct {
	s    *Session
	t    *task
	what string
	// whole: a read that brought less has failed.
	whole bool
	// again is what is sent where the disk does not know the command; nil: nothing.
	again func(ctx context.Context) error
}

// Wait returns when the command has ended, with its error. A command that the disk puts off is sent again. When ctx ends before,
// the session ends.
func (p *Pending) Wait(ctx context.Context) error {
	pause := triesWait
	for n := 1; ; n++ {
		err := p.s.wait(ctx, p.t)
		status, is := errors.AsType[*StatusError](err)
		switch {
		case err == nil && p.t.got != len(p.t.in) && p.whole:
			return fmt.Errorf("%s: the target sent %d", p.what, p.t.got)
		case err == nil:
			return nil
		case is && status.Status == checkCondition && status.Key == illegalRequest && p.again != nil:
			return p.again(ctx)
		case !is || !status.passes() || n == tries:
			return fmt.Errorf("%s: %w", p.what, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		pause *= 2
		p.t = &task{cdb: p.t.cdb, out: p.t.out, in: p.t.in}
		p.s.begin(p.t)
	}
}

func (d *Disk) start(what string, cdb [16]byte, out, in []byte) *Pending {
	p := &Pending{s: d.s, t: &task{cdb: cdb, out: out, in: in}, what: what}
	d.s.begin(p.t)
	return p
}

// limits of what a disk may say of itself.
const (
	leastBlock = 512
	mostBlock  = 64 << 10
)

// Disk asks the session's disk what it is.
func (s *Session) Disk(ctx context.Context) (*Disk, error) {
	d := &Disk{s: s}
	if err := d.start("test unit ready", [16]byte{}, nil, nil).Wait(ctx); err != nil {
		return nil, err
	}
	about := make([]byte, 36)
	if err := d.start("inquiry", [16]byte{0x12, 0, 0, 0, byte(len(about))}, nil, about).Wait(ctx); err != nil {
		return nil, err
	}
	if about[0] != 0 {
		return nil, fmt.Errorf("LUN %d of the target is no disk (peripheral %#02x)", s.lun[1], about[0])
	}
	capacity := make([]byte, 32)
	if err := d.start("read capacity", [16]byte{0x9e, 0x10, 13: byte(len(capacity))}, nil, capacity).Wait(ctx); err != nil {
		return nil, err
	}
	last := binary.BigEndian.Uint64(capacity)
	d.block = int64(binary.BigEndian.Uint32(capacity[8:]))
	if d.block < leastBlock || d.block > mostBlock || d.block&(d.block-1) != 0 || last >= 1<<53/uint64(d.block) {
		return nil, fmt.Errorf("the target's disk says that it has %d blocks of %d bytes", last, d.block)
	}
	d.size = int64(last+1) * d.block
	d.sameMost = d.writeSameLimit(ctx)
	return d, nil
}

// sameDefault bounds a WRITE SAME of a disk that sets no bound: the disk has to answer within the session's patience.
const sameDefault = 32 << 20

// writeSameLimit reads how many bytes a WRITE SAME may set (SBC-3, 6.5.3).
func (d *Disk) writeSameLimit(ctx context.Context) int64 {
	page := make([]byte, 64)
	if err := d.start("block limits", [16]byte{0x12, 1, 0xb0, 0, byte(len(page))}, nil, page).Wait(ctx); err != nil || page[1] != 0xb0 {
		return sameDefault
	}
	most := binary.BigEndian.Uint64(page[36:])
	if most == 0 || most > uint64(sameDefault/d.block) {
		return sameDefault
	}
	return int64(most) * d.block
}

// Size is the disk's size in bytes, Block that of a logical block. Offsets and lengths are multiples of it.
func (d *Disk) Size() int64 { return d.size }

// Block is the size of a logical block in bytes.
func (d *Disk) Block() int64 { return d.block }

// Largest is how many bytes one write or read should have: more would travel in several bursts.
const Largest = firstBurst

// check refuses what is not of whole blocks within the disk.
func (d *Disk) check(off, n int64) error {
	if off < 0 || n <= 0 || off%d.block != 0 || n%d.block != 0 || n > d.size || off > d.size-n {
		return fmt.Errorf("%d bytes at %d are no blocks of the disk, which has %d bytes in blocks of %d", n, off, d.size, d.block)
	}
	return nil
}

// at is a command with a 64-bit address and a 32-bit count of blocks.
func (d *Disk) at(op byte, off, n int64) (cdb [16]byte) {
	cdb[0] = op
	binary.BigEndian.PutUint64(cdb[2:], uint64(off/d.block))
	binary.BigEndian.PutUint32(cdb[10:], uint32(n/d.block))
	return cdb
}

// Write begins to write p at off. p must not change before Wait has returned.
func (d *Disk) Write(p []byte, off int64) (*Pending, error) {
	if err := d.check(off, int64(len(p))); err != nil {
		return nil, err
	}
	return d.start(fmt.Sprintf("write %d bytes at %d", len(p), off), d.at(0x8a, off, int64(len(p))), p, nil), nil
}

// BeginRead begins to read p at off, from the medium or the disk's own cache.
func (d *Disk) BeginRead(p []byte, off int64) (*Pending, error) {
	if err := d.check(off, int64(len(p))); err != nil {
		return nil, err
	}
	q := d.start(fmt.Sprintf("read %d bytes at %d", len(p), off), d.at(0x88, off, int64(len(p))), nil, p)
	q.whole = true
	return q, nil
}

// Read does so, and returns when p is read.
func (d *Disk) Read(ctx context.Context, p []byte, off int64) error {
	q, err := d.BeginRead(p, off)
	if err != nil {
		return err
	}
	return q.Wait(ctx)
}

// zeros are written where a disk does not know WRITE SAME.
var zeros [Largest]byte

// Zero begins to make bytes at off read as zero, n or the first of them, and returns how many: by WRITE SAME, or by writing zeros to a
// disk that does not know that.
func (d *Disk) Zero(off, n int64) (*Pending, int64, error) {
	if err := d.check(off, n); err != nil {
		return nil, 0, err
	}
	if d.sameMost == 0 {
		k := min(n, Largest)
		p, err := d.Write(zeros[:k], off)
		return p, k, err
	}
	k := min(n, d.sameMost)
	p := d.start(fmt.Sprintf("zero %d bytes at %d", k, off), d.at(0x93, off, k), zeros[:d.block], nil)
	p.again = func(ctx context.Context) error { d.sameMost = 0; return d.writeZeros(ctx, off, k) }
	return p, k, nil
}

func (d *Disk) writeZeros(ctx context.Context, off, n int64) error {
	for n > 0 {
		k := min(n, Largest)
		p, err := d.Write(zeros[:k], off)
		if err == nil {
			err = p.Wait(ctx)
		}
		if err != nil {
			return err
		}
		off, n = off+k, n-k
	}
	return nil
}

// Flush returns when what was written is on the medium.
func (d *Disk) Flush(ctx context.Context) error { return d.BeginFlush().Wait(ctx) }

// BeginFlush begins to bring to the medium what was written and waited for. Writes may go on meanwhile.
func (d *Disk) BeginFlush() *Pending {
	return d.start("synchronize cache", [16]byte{0x35}, nil, nil)
}
