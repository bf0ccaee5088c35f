package vfs

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

const page = 512

// disk is a log's file, and how often it was written.
type disk struct {
	data   []byte
	writes int
}

func (d *disk) put(p []byte, offset int64) int32 {
	d.writes++
	if missing := int(offset) + len(p) - len(d.data); missing > 0 {
		d.data = append(d.data, make([]byte, missing)...)
	}
	copy(d.data[offset:], p)
	return 0
}

// pair writes to a log and, for comparison, straight to another file.
type pair struct {
	l              log
	kept, straight disk
}

func (p *pair) write(t *testing.T, data []byte, offset int64) {
	t.Helper()
	p.straight.put(data, offset)
	if code := p.l.write(p.kept.put, data, offset); code != 0 {
		t.Fatalf("code %d", code)
	}
}

func (p *pair) same() bool { return bytes.Equal(p.kept.data, p.straight.data) }

// frame writes a frame as SQLite does; last: of a commit.
func (p *pair) frame(t *testing.T, offset int64, last bool) int64 {
	t.Helper()
	header, content := make([]byte, frameHeader), make([]byte, page)
	binary.BigEndian.PutUint32(header, rand.Uint32())
	if last {
		binary.BigEndian.PutUint32(header[4:], 7)
	}
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	p.write(t, header, offset)
	p.write(t, content, offset+frameHeader)
	return offset + frameHeader + page
}

func TestACommitIsOneWrite(t *testing.T) {
	var p pair
	p.write(t, make([]byte, 32), 0)
	offset := int64(32)
	for range 3 {
		p.kept.writes = 0
		for range 9 {
			offset = p.frame(t, offset, false)
		}
		if p.kept.writes != 0 {
			t.Fatalf("%d writes before the commit", p.kept.writes)
		}
		offset = p.frame(t, offset, true)
		if p.kept.writes != 1 || !p.same() {
			t.Fatalf("%d writes for a commit, which is in the file: %t", p.kept.writes, p.same())
		}
	}
}

// TestACommitIsInTheFile: whatever came before it, frames that were written again, a log that
// began anew or a transaction too large to be kept back.
func TestACommitIsInTheFile(t *testing.T) {
	for range 40 {
		var p pair
		p.write(t, make([]byte, 32), 0)
		starts := []int64{32}
		for range 20 {
			next := starts[len(starts)-1]
			again := next
			switch rand.N(6) {
			case 0: // undone after some of it was written
				starts = starts[:1+rand.N(len(starts))]
				next = starts[len(starts)-1]
			case 1: // from the start
				p.write(t, make([]byte, 32), 0)
				next, starts = 32, []int64{32}
			case 2:
				for range maxKept/page + 5 {
					next = p.frame(t, next, false)
					starts = append(starts, next)
				}
			}
			for range rand.N(5) {
				next = p.frame(t, next, false)
				starts = append(starts, next)
			}
			if next > again && rand.N(2) == 0 { // a page of this commit has changed once more
				p.write(t, make([]byte, page), again+frameHeader)
			}
			next = p.frame(t, next, true)
			starts = append(starts, next)
			if rand.N(3) == 0 { // headers with new checksums, the commit's own last
				for i := max(0, len(starts)-4); i < len(starts)-1; i++ {
					header := make([]byte, frameHeader)
					if i == len(starts)-2 {
						binary.BigEndian.PutUint32(header[4:], 7)
					}
					p.write(t, header, starts[i])
				}
			}
			if len(p.l.kept) > 0 || !p.same() {
				t.Fatalf("%d bytes are kept back after a commit; the file has all: %t", len(p.l.kept), p.same())
			}
		}
	}
}

// TestAFailedWriteIsTold: to the one who commits, and nothing of it is written later.
func TestAFailedWriteIsTold(t *testing.T) {
	var p pair
	full := func([]byte, int64) int32 { return 13 }
	header := make([]byte, frameHeader)
	if code := p.l.write(full, header, 32); code != 0 {
		t.Fatalf("code %d before anything was to be written", code)
	}
	if code := p.l.write(full, make([]byte, page), 32+frameHeader); code != 0 {
		t.Fatalf("code %d before anything was to be written", code)
	}
	header[7] = 1
	p.l.write(full, header, 32+frameHeader+page)
	if code := p.l.write(full, make([]byte, page), 32+2*frameHeader+page); code != 13 {
		t.Fatalf("code %d of a commit that the disk refused", code)
	}
	if code := p.l.flush(p.kept.put); code != 0 || p.kept.writes != 0 {
		t.Fatalf("code %d, %d writes of what was refused", code, p.kept.writes)
	}
}
