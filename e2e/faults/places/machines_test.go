package places

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/rackd/bootmedium"
)

// address is where the rackd of a group serves machines; no two rackds of a group
// run at once.
func address(group string) string {
	for i := range groups {
		if group == lane(i) {
			return fmt.Sprintf("127.82.1.%d", i+1)
		}
	}
	return "127.82.0.1"
}

// quick machines, and writes that last long enough to be re-attached to.
var quick = pace.Timings{Firmware: 100 * time.Millisecond, Ramdisk: 100 * time.Millisecond, Instance: 100 * time.Millisecond, Retry: 500 * time.Millisecond,
	Write: 2500 * time.Millisecond, Step: 100 * time.Millisecond, Grace: 100 * time.Millisecond, Shutdown: 200 * time.Millisecond, Spread: 0.3}

// ownImage is the path of an image of a CD whose ramdisk knows no rackd, and looks for a second medium.
const ownImage = "/own.iso"

// instanceImage is the path of an image of a CD that starts an instance.
const instanceImage = "/instance.iso"

// largeImage is the path of an image of a disk that takes a while to write.
const largeImage = "/large.raw"

// larger is that image, and its SHA-256.
var larger = sync.OnceValues(func() (body []byte, sum string) {
	body = bytes.Repeat([]byte("a larger system "), 1<<20)
	digest := sha256.Sum256(body)
	return body, hex.EncodeToString(digest[:])
})

// imageOf makes an image of a CD whose kernel gets these parameters.
func imageOf(t *testing.T, params ...string) []byte {
	t.Helper()
	loader := bootmedium.FindLoader(t.Context())
	defer loader.Close()
	file := func(text string) bootmedium.File {
		return bootmedium.File{ReaderAt: strings.NewReader(text), Size: int64(len(text))}
	}
	image, err := loader.Image(bootmedium.Contents{Kernel: file("an operator's kernel"), Ramdisk: file("an operator's ramdisk"), Params: params})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(image, 0, image.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// addMachines adds simulated machines, an image for them, and what rackds serve.
// ways: their firmware attaches volumes and has secure boot, they export their disks, and their ramdisks install containers and run
// playbooks.
func (r *rig) addMachines(t *testing.T, n int, ways bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: rackd's TFTP server needs root")
	}
	body := bytes.Repeat([]byte("an operating system "), 1<<14)
	sum := sha256.Sum256(body)
	images := map[string][]byte{}
	if ways {
		images[ownImage], images[instanceImage] = imageOf(t, "boot_method=vmedia"), imageOf(t, "quiet")
		images[largeImage], _ = larger()
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		content := body
		if image, is := images[q.URL.Path]; is {
			content = image
		}
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(s.Close)
	r.files = s.URL
	r.image = operator.Image{URL: s.URL + "/image.raw", SHA256: hex.EncodeToString(sum[:])}
	boot := filepath.Join(r.dir, "boot")
	if err := os.Mkdir(boot, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"undionly.kpxe", "kernel", "ramdisk"} {
		if err := os.WriteFile(filepath.Join(boot, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(boot, programFile), program(t), 0o600); err != nil {
		t.Fatal(err)
	}
	c := fleet.Default
	c.Machines, c.Network, c.Timings, c.Keep = n, netip.MustParsePrefix("127.83.0.0/16"), quick, 1<<20
	c.BMCPort, c.AgentPort = 8543, 9899 // other fleets may run on this machine
	if c.Volumes, c.SecureBoot = ways, ways; ways {
		c.Scratch, c.Podman, c.SSH, c.Authorities = r.dir, true, true, r.addCertificate(t)
		r.addPlaybook(t)
	}
	c.Rackds = []string{"http://" + address(spare) + ":8080"}
	var err error
	if r.machines, err = fleet.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- r.machines.Run(ctx, func() { close(up) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the fleet ended with %v", err)
		}
	})
	select {
	case <-up:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
}
