package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// Who knows an image's checksum is not given the image; the agent, the neighbours of the
// group and those of a group that stands in for it are.
func TestAChecksumOpensNoImage(t *testing.T) {
	key := func(b byte) *seal.Key {
		k, err := seal.NewKey(bytes.Repeat([]byte{b}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b, c := key(1), key(2), key(3)
	// Rack-b stands in for rack-a, and rack-c for neither.
	keys := map[string]*seal.Keyring{"rack-a": seal.NewKeyring("rack-a", a), "Rack-B": seal.NewKeyring("Rack-B", b).With("rack-a", a), "rack-c": seal.NewKeyring("rack-c", c)}
	const private = "a tenant's private image"
	dir, sum := t.TempDir(), sha256.Sum256([]byte(private))
	checksum := hex.EncodeToString(sum[:])
	id := "sha256-" + checksum
	if err := os.WriteFile(filepath.Join(dir, "image"), []byte(private), 0o600); err != nil {
		t.Fatal(err)
	}
	rack := func(group string) images {
		cache, err := imagecache.Open(imagecache.Config{Dir: t.TempDir(), AllowedDirs: []string{dir}, Client: http.DefaultClient})
		if err != nil {
			t.Fatal(err)
		}
		codes := imageCodes{keys[group], group}
		srv := httptest.NewServer(cache.Handler(codes.fits))
		t.Cleanup(srv.Close)
		return images{cache: cache, bases: []string{srv.URL}, codes: codes, neighbours: func() []bus.Member { return nil }}
	}
	for _, owner := range []string{"rack-a", "Rack-B"} {
		has := rack(owner)
		urls, err := has.Prepare(t.Context(), driver.ImageSource{URL: "file://" + filepath.Join(dir, "image"), HashAlgo: "sha256", HashValue: checksum})
		if err != nil {
			t.Fatal(err)
		}
		for url, want := range map[string]int{urls[0]: 200, has.cached(has.bases[0])(id): 200, has.bases[0] + imagecache.Prefix + id: 404, has.bases[0] + imagecache.Path("", id): 404,
			has.bases[0] + imagecache.Path("none", id): 404, rack("rack-c").codes.url(has.bases[0], owner, id): 404, has.codes.url(has.bases[0], owner, "sha256-"+strings.Repeat("0", 64)): 404} {
			res, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s: %d, want %d", url, res.StatusCode, want)
			}
		}
		for by, want := range map[string]bool{"rack-a": true, "Rack-B": true, "rack-c": false} {
			err := rack(by).Copy(t.Context(), id, bus.Member{Group: owner, BootURL: has.bases[0]})
			if (err == nil) != want {
				t.Errorf("%s copies from %s: %v, want it to work: %t", by, owner, err, want)
			}
		}
	}
}
