package imagecache

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// maker writes so many bytes, and does something before it ends.
type maker struct {
	bytes int
	then  func() error
}

func (maker) Way() string                                            { return "test" }
func (m maker) Need(context.Context, *os.File, int64) (int64, error) { return int64(m.bytes), nil }
func (m maker) Make(_ context.Context, _, out *os.File, _ int64) error {
	if _, err := out.Write(make([]byte, m.bytes)); err != nil {
		return err
	}
	return m.then()
}

// What a conversion has written takes room once: on the disk, and no longer of what was granted to it. A deploy beside it has its image
// fetched, and evicts nothing for that.
func TestAConversionTakesItsRoomOnce(t *testing.T) {
	const mib = 1 << 20
	o := newOrigin(t)
	c := openCache(t, Config{Dir: filepath.Join(small(t), "cache")}) // of 10 MiB, of which images take 8
	from := mustEnsure(t, c, o.put("/foreign", mib))
	beside := o.put("/beside", 2*mib)
	made, err := c.Derive(t.Context(), from, maker{4 * mib, func() error {
		_, err := c.Ensure(t.Context(), beside)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !has(c, from) || !has(c, made) {
		t.Error("an image was evicted although there was room")
	}
	if err := os.Remove(filepath.Join(c.dir, derivedFile)); err != nil { // checkBooks knows images alone
		t.Error(err)
	}
}
