package daemon

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/netboot"
)

func TestOwnKernelComesFromTheCacheWhereItIsThere(t *testing.T) {
	d := directory{cached: func(id string) string {
		if id != "sha256-k" {
			return ""
		}
		return "http://rack/images/" + id
	}}
	for name, c := range map[string]struct {
		kernel, ramdisk conductor.BootFile
		want            [2]string
	}{
		"the rackd's own":  {want: [2]string{"", ""}},
		"cached":           {conductor.BootFile{URL: "http://x/k", ID: "sha256-k"}, conductor.BootFile{URL: "http://x/r", ID: "sha256-k"}, [2]string{"http://rack/images/sha256-k", "http://rack/images/sha256-k"}},
		"not yet here":     {conductor.BootFile{URL: "http://x/k", ID: "sha256-n"}, conductor.BootFile{URL: "http://x/r"}, [2]string{"http://x/k", "http://x/r"}},
		"no longer wanted": {conductor.BootFile{ID: "sha256-k"}, conductor.BootFile{ID: "sha256-k"}, [2]string{"", ""}},
	} {
		m, ok := d.machine(conductor.BootOrder{Node: &node.Document{}, Ramdisk: true, Via: driver.ViaHTTP, KernelParams: []string{"quiet"}, Kernel: c.kernel, Initramfs: c.ramdisk}, true)
		if !ok || m.Order != netboot.Ramdisk || [2]string{m.Kernel, m.Initramfs} != c.want || len(m.KernelParams) != 1 {
			t.Errorf("%s: kernel %q, ramdisk %q, want %q", name, m.Kernel, m.Initramfs, c.want)
		}
	}
}

// A server of config drives that is away for a moment is asked again by the step; one that refuses is not.
func TestConfigDriveOfAServerThatIsAway(t *testing.T) {
	for status, again := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusNotFound: false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		if _, err := drives(s.Client())(t.Context(), s.URL+"/drive", "", ""); err == nil || errors.Is(err, driver.ErrUnreachable) != again {
			t.Errorf("answered %d: %v", status, err)
		}
		s.Close()
	}
}
