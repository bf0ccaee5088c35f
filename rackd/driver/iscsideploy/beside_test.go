package iscsideploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// meter counts what is read.
type meter struct {
	io.Reader
	n atomic.Int64
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.n.Add(int64(n))
	return n, err
}

// A file is hashed as far as its reader has come, and to its end by the check. One that ends earlier is judged, too.
func TestHashingFollowsTheReader(t *testing.T) {
	content := bytes.Repeat([]byte("an image's bytes"), 1<<18) // 4 MiB
	sum := sha256.Sum256(content)
	for _, whole := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			file := &meter{Reader: bytes.NewReader(content[:len(content)-map[bool]int{false: 1}[whole]])}
			b := hashBeside(promise(file, driver.DiskImage{HashValue: hex.EncodeToString(sum[:])}))
			defer b.close()
			for _, n := range []int64{1000, 3 << 20} {
				before := file.n.Load()
				b.more(n)
				if synctest.Wait(); file.n.Load()-before != n {
					t.Errorf("%d bytes are hashed, not the %d that the reader has come further", file.n.Load()-before, n)
				}
			}
			done, err := b.check()
			if _, damaged := err.(*damagedError); !done || damaged == whole || whole && err != nil {
				t.Errorf("a file that is whole (%v): done %v, %v", whole, done, err)
			}
			b.more(1)
		})
	}
}

// slowReader reads zeros without end, each piece a second after the other. It is for a bubble of synctest.
type slowReader struct{}

// Read implements io.Reader.
func (slowReader) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return len(p), nil
}

// A check of a file that is not hashed yet returns, and nothing is read once the reader has ended.
func TestHashingEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &meter{Reader: slowReader{}}
		b := hashBeside(promise(file, driver.DiskImage{}))
		if done, err := b.check(); done || err != nil { // it has no end
			t.Fatalf("done %v, %v", done, err)
		}
		b.close()
		n := file.n.Load()
		if time.Sleep(time.Hour); file.n.Load() != n { // of the bubble
			t.Error("the file is read after its reader has ended")
		}
	})
}
