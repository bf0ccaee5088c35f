package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/disk"
)

// random has nothing that compresses, and no zeros.
func random(size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{5}).Read(b)
	return b
}

// halfway sends so many bytes of the file, and the rest once it may.
func halfway(t *testing.T, file []byte, n int, rest <-chan struct{}) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(file)))
		w.Write(file[:n])
		w.(http.Flusher).Flush()
		select {
		case <-rest:
			w.Write(file[n:])
		case <-r.Context().Done():
		}
	})
}

// watchedDisk tells of the first write.
type watchedDisk struct {
	*disk.Disk
	wrote func()
}

func (d watchedDisk) WriteAt(p []byte, off int64) (int, error) {
	d.wrote()
	return d.Disk.WriteAt(p, off)
}

// The disk writes a qcow2 file while the network brings it. The first MiB waits for the checksum.
func TestAQcow2FileIsWrittenWhileItComes(t *testing.T) {
	raw := random(8 << 20)
	file := qcow2File(t, raw)
	in, path := staleDisk(t, diskSize)
	written := make(chan struct{})
	d := watchedDisk{in, sync.OnceFunc(func() {
		if b := readBack(t, path); !allZero(b[:1<<20]) {
			t.Error("the first MiB is written before the file was seen whole")
		}
		close(written)
	})}
	s := Spec{URLs: []string{halfway(t, file, len(file)-1<<20, written)}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}
	w := writer(t, 1<<30)
	w.Stall = 20 * time.Second // the rest comes when the disk has written
	if _, err := w.Write(t.Context(), s, d, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readBack(t, path)[:len(raw)], raw) {
		t.Error("the disk does not hold the image")
	}
}

// A file whose first table is behind all else is read once that has come.
func TestAQcow2FileWithItsTableBehind(t *testing.T) {
	raw := random(4 << 20)
	file := qcow2File(t, raw)
	at, entries := binary.BigEndian.Uint64(file[40:]), binary.BigEndian.Uint32(file[36:])
	table := bytes.Clone(file[at : at+8*uint64(entries)])
	clear(file[at : at+8*uint64(entries)])
	file = append(file, make([]byte, -len(file)&0xffff)...)
	binary.BigEndian.PutUint64(file[40:], uint64(len(file)))
	file = append(file, append(table, make([]byte, 64<<10-len(table))...)...)
	d, path := staleDisk(t, diskSize)
	s := Spec{URLs: []string{serveBytes(t, file)}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}
	if _, err := writer(t, 1<<30).Write(t.Context(), s, d, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readBack(t, path)[:len(raw)], raw) {
		t.Error("the disk does not hold the image")
	}
}

// What a server sends in the place of the file may be damaged in its tables. It is told as what it is: another file.
func TestAnotherFileWithBadTables(t *testing.T) {
	raw := random(4 << 20)
	file := qcow2File(t, raw)
	for name, damage := range map[string]func([]byte){
		"no second table":       func(b []byte) { b[binary.BigEndian.Uint64(b[40:])+5] = 0xff },
		"clusters far behind":   func(b []byte) { b[binary.BigEndian.Uint64(b[binary.BigEndian.Uint64(b[40:]):])&^(1<<63)+3] = 0x7f },
		"first table elsewhere": func(b []byte) { b[43] = 0x10 },
	} {
		t.Run(name, func(t *testing.T) {
			other := bytes.Clone(file)
			damage(other)
			d, path := staleDisk(t, diskSize)
			s := Spec{URLs: []string{serveBytes(t, other)}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}
			_, err := writer(t, 1<<30).Write(t.Context(), s, d, nil)
			if _, ok := errors.AsType[*ChecksumError](err); !ok {
				t.Errorf("error %v, want the wrong checksum", err)
			}
			if b := readBack(t, path); !allZero(b[:1<<20]) && b[0] != 0xd7 {
				t.Error("half an image could boot")
			}
		})
	}
}

// An abort ends a write that waits for a server.
func TestAnAbortWhileAFileComes(t *testing.T) {
	file := qcow2File(t, random(8<<20))
	in, path := staleDisk(t, diskSize)
	stop := errors.New("operator said stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	d := watchedDisk{in, sync.OnceFunc(func() { cancel(stop) })}
	w := writer(t, 1<<30)
	w.Stall = 20 * time.Second
	began := time.Now()
	_, err := w.Write(ctx, Spec{URLs: []string{halfway(t, file, 6<<20, nil)}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}, d, nil)
	if !errors.Is(err, stop) || time.Since(began) > w.Stall/2 {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if b := readBack(t, path); !allZero(b[:1<<20]) || !allZero(b[diskSize-1<<20:]) {
		t.Error("the ends of the disk are not wiped")
	}
}

// A spool that takes no more is the write's error, and no bad image.
func TestASpoolThatIsFull(t *testing.T) {
	file := qcow2File(t, random(4<<20))
	url := serveBytes(t, file)
	w := writer(t, 1<<30)
	a := &attempt{w: w, spec: Spec{URLs: []string{url}, Format: "qcow2", HashAlgo: "sha256", HashValue: sum256(file)}}
	ctx, stop := context.WithCancelCause(t.Context())
	a.stop = stop
	s, err := a.open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := a.arrive(s, url, s.plain, full)
	defer r.Close()
	_, read := r.ReadAt(make([]byte, 4096), 1<<20)
	for _, err := range []error{read, r.whole(), a.unreadable(r, read)} {
		if err == nil || !strings.Contains(err.Error(), "keeping the image") || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("error %v", err)
		}
	}
}
