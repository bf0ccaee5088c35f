package imagecache

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// An image, or its file of checksums, whose URL leads where nothing is fetched from is not
// tried again, and its origin is not asked.
func TestRefusedNetwork(t *testing.T) {
	o := newOrigin(t)
	image := o.URL + "/image?signature=secret"
	c, err := Open(Config{Dir: t.TempDir(), Client: outbound.Client(outbound.Fetching{Refused: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []Source{{URL: image, HashValue: strings.Repeat("0", 64)}, {URL: image, HashValue: o.URL + "/SHA256SUMS"}} {
		_, err := c.Ensure(t.Context(), src)
		if !Permanent(err) || !strings.Contains(err.Error(), "--no-fetch-from") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", src, err)
		}
	}
	if n := o.gets.Load(); n != 0 {
		t.Errorf("the origin was asked %d times", n)
	}
}
