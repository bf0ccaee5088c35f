package image

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"
)

// The checksum is that of all bytes in their order, however they come. What is written from is used again at once, as readers do.
func TestWhatIsSummedAside(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, summedAtOnce - 1, summedAtOnce, summedAtOnce + 1, 10*summedAtOnce + 17} {
		all := make([]byte, size)
		rand.NewChaCha8([32]byte{9}).Read(all)
		s := sumAside(sha256.New())
		piece := make([]byte, 2*summedAtOnce)
		for from := bytes.NewReader(all); ; {
			n, err := from.Read(piece[:1+r.IntN(len(piece))])
			s.Write(piece[:n])
			clear(piece[:n])
			if err == io.EOF {
				break
			}
		}
		want := sha256.Sum256(all)
		for range 2 {
			if got := s.close().Sum(nil); !bytes.Equal(got, want[:]) {
				t.Errorf("%d bytes have %x, want %x", size, got, want)
			}
		}
	}
}
