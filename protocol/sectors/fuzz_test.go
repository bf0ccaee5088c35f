package sectors

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzFit lets an image be anything: it fits, or the error says that it does not.
func FuzzFit(f *testing.F) {
	f.Add(mbr(2048, 0x83), int64(6<<20))
	f.Add(gpt(512), int64(6<<20))
	f.Add(gpt(4096), int64(0))
	f.Fuzz(func(t *testing.T, head []byte, image int64) {
		for _, sector := range []int64{512, 4096} {
			if err := Fit(bytes.NewReader(head), image, "sda", sector); err != nil && !errors.As(err, new(*Error)) {
				t.Error(err)
			}
		}
	})
}
