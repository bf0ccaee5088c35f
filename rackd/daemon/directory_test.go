package daemon

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/driver"
)

func TestOwnKernelComesFromTheCacheWhereItIsThere(t *testing.T) {
	d := directory{cached: func(id string) string {
		if id != "sha256-k" {
			return ""
		}
		return "http://rack/images/" + id
	}}
	for name, c := range map[string]struct {
		kernel, ramdisk bootorder.File
		want            [2]string
	}{
		"the rackd's own":  {want: [2]string{"", ""}},
		"cached":           {bootorder.File{URL: "http://x/k", ID: "sha256-k"}, bootorder.File{URL: "http://x/r", ID: "sha256-k"}, [2]string{"http://rack/images/sha256-k", "http://rack/images/sha256-k"}},
		"not yet here":     {bootorder.File{URL: "http://x/k", ID: "sha256-n"}, bootorder.File{URL: "http://x/r"}, [2]string{"http://x/k", "http://x/r"}},
		"no longer wanted": {bootorder.File{ID: "sha256-k"}, bootorder.File{ID: "sha256-k"}, [2]string{"", ""}},
	} {
		m, ok := d.machine(conductor.BootOrder{Node: &node.Document{}, Order: bootorder.Ramdisk(bootorder.Load{Params: []string{"quiet"}, Kernel: c.kernel, Initramfs: c.ramdisk})}, true)
		l := m.Order.Load
		if !ok || l == nil || [2]string{l.Kernel.URL, l.Initramfs.URL} != c.want || len(l.Params) != 1 {
			t.Errorf("%s: loads %+v, want %q", name, l, c.want)
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
