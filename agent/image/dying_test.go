package image

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/disk"
)

// dyingDisk fails its first write, once the server is silent.
type dyingDisk struct {
	*disk.Disk
	silent <-chan struct{}
	died   time.Time
}

func (d *dyingDisk) WriteAt([]byte, int64) (int, error) {
	<-d.silent
	if d.died.IsZero() {
		d.died = time.Now()
	}
	return 0, errors.New("the disk is dead")
}

// A disk that dies is told of at once, although the reader ahead of it waits for a server that is silent.
func TestADeadDiskIsToldOfAtOnce(t *testing.T) {
	raw := make([]byte, 6<<20)
	rand.NewChaCha8([32]byte{2}).Read(raw)
	sparse := qcow2File(t, raw)
	for name, c := range map[string]struct {
		file   []byte
		format string
		ranges int32 // how many are answered
		spool  int64
	}{"raw": {raw, "raw", 0, 0}, "qcow2 read twice": {sparse, "qcow2", 3, 4096}, "qcow2 kept": {sparse, "qcow2", 0, 1 << 30}} {
		t.Run(name, func(t *testing.T) {
			silent := make(chan struct{})
			quiet := sync.OnceFunc(func() { close(silent) })
			var ranges atomic.Int32
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case c.ranges == 0:
					w.Header().Set("Content-Length", strconv.Itoa(len(c.file)))
					w.Write(c.file[:3<<20])
					w.(http.Flusher).Flush()
				case r.Header.Get("Range") == "" || ranges.Add(1) <= c.ranges:
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.file))
					return
				}
				quiet()
				<-r.Context().Done()
			})
			in, path := staleDisk(t, diskSize)
			d := &dyingDisk{Disk: in, silent: silent}
			w := writer(t, c.spool)
			w.Stall = 20 * time.Second
			_, err := w.Write(t.Context(), Spec{URLs: []string{url}, Format: c.format, HashAlgo: "sha256", HashValue: sum256(c.file)}, d, nil)
			if err == nil || !strings.Contains(err.Error(), "the disk is dead") {
				t.Fatalf("error %v", err)
			}
			if took := time.Since(d.died); took > w.Stall/2 {
				t.Errorf("told %v after the disk had died: %v", took, err)
			}
			if b := readBack(t, path); !allZero(b[:1<<20]) || !allZero(b[diskSize-1<<20:]) {
				t.Error("the ends of the disk are not wiped")
			}
		})
	}
}
