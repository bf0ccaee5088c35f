package fleet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/provision"
)

// registry has one image, and may lie about it.
type registry struct {
	host string
	body []byte

	mu    sync.Mutex
	lie   string
	asked int // for the file
}

func newRegistry(t *testing.T) *registry {
	r := &registry{body: bytes.Repeat([]byte("raw disk "), imageBytes/9)}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.host = strings.TrimPrefix(s.URL, "http://")
	return r
}

// tells makes it tell a lie from now on; empty: the truth.
func (r *registry) tells(lie string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lie, r.asked = lie, 0
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (r *registry) manifest(file string) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"a/disk","config":{"mediaType":"application/vnd.oci.empty.v1+json","size":2,
"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%d}]}`,
		file, len(r.body))
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	give := r.body
	if strings.Contains(q.URL.Path, "/manifests/") {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		give = r.manifest(hexSum(r.body))
		if r.lie == "another manifest" {
			give = r.manifest(hexSum([]byte("other")))
		}
	} else {
		r.asked++
		switch r.lie {
		case "another file":
			give = bytes.Replace(give, []byte("raw"), []byte("RAW"), 1)
		case "a short file":
			give = give[:len(give)/2]
		}
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(give)))
	if q.Method == http.MethodHead {
		return
	}
	if r.lie == "a file that breaks off twice" && strings.Contains(q.URL.Path, "/blobs/") && r.asked <= 2 {
		give = give[:len(give)/2]
	}
	w.Write(give)
}

// enrolled makes nodes of all machines, available and without cleaning.
func (r *rig) enrolled(ctx context.Context) {
	r.t.Helper()
	for _, m := range r.fleet.Members {
		id, err := r.o.Enrol(ctx, r.fleet.Enrolment(m))
		if err != nil {
			r.t.Fatal(err)
		}
		r.nodes[m.Name] = id
	}
	r.each(ctx, "make available", r.fleet.Members, func(ctx context.Context, _ *fleet.Member, node string) error { return r.o.MakeAvailable(ctx, node) })
}

// A registry lies to a whole rack. The deploy fails with the reason, and the machine's disk is not written to. When the registry tells the
// truth the same node is deployed: nothing of the lie is in the cache. A transfer that breaks off is tried again without being asked.
func TestARegistryThatLiesToARack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	reg := newRegistry(t)
	t.Setenv("RACKD_PLAIN_REGISTRIES", reg.host)
	c := fleet.Default
	c.Machines = 1
	r := newRig(ctx, t, c)
	r.enrolled(ctx)
	m := r.fleet.Members[0]
	node := r.nodes[m.Name]
	r.image = operator.Image{SHA256: hexSum(reg.body)}
	info := map[string]any{"image_source": "oci://" + reg.host + "/site/os@sha256:" + hexSum(reg.manifest(hexSum(reg.body))), "image_disk_format": "raw"}
	if err := r.o.Set(ctx, node, "/instance_info", info); err != nil {
		t.Fatal(err)
	}
	for _, lie := range []struct{ is, says string }{
		{"another file", "wrong checksum"}, {"a short file", "its manifest says"}, {"another manifest", "gives something else for site/os:sha256:"},
	} {
		reg.tells(lie.is)
		if err := r.o.Ask(ctx, node, "active", nil); err != nil {
			t.Fatal(err)
		}
		_, err := r.o.Wait(ctx, node, provision.Active)
		failed, is := errors.AsType[*operator.FailedError](err)
		if !is || !strings.Contains(failed.LastError, lie.says) {
			t.Errorf("%s: %v, want a deploy that failed and says %q", lie.is, err, lie.says)
		} else {
			t.Logf("%s: %s", lie.is, failed.LastError)
		}
		if n := r.fleet.Journal.Counts(m.Name)[journal.WriteBegun]; n != 0 {
			t.Errorf("%s: %d writes of the disk have begun", lie.is, n)
		}
	}
	reg.tells("a file that breaks off twice")
	if err := r.deploy(ctx, m, node); err != nil {
		t.Errorf("the registry tells the truth at last: %v\n%s", err, r.story(m))
	}
	reg.mu.Lock()
	if reg.asked != 3 {
		t.Errorf("the registry was asked %d times for its file, want 3", reg.asked)
	}
	reg.mu.Unlock()
	r.audited()
}

// counting puts a qemu-img before the host's that counts the conversions which it is asked for. It returns how many there were.
func counting(t *testing.T) func() int {
	t.Helper()
	real, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Fatalf("needs qemu-img (Debian package qemu-utils): %v", err)
	}
	// Rackd runs it as another user, and the test's own folder is closed to that one.
	dir, err := os.MkdirTemp("", "ironyard-counting-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tally := filepath.Join(dir, "tally")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != convert ] || echo one >> %s\nexec %s \"$@\"\n", tally, real)
	if err := errors.Join(os.WriteFile(tally, nil, 0o666), os.WriteFile(filepath.Join(dir, "qemu-img"), []byte(script), 0o755),
		os.Chmod(dir, 0o755), os.Chmod(tally, 0o666)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() int {
		text, err := os.ReadFile(tally)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("\n"))
	}
}

// Machines that are deployed at once from one foreign image cost their rack one conversion in each rackd's cache. Those that come later
// cost none.
func TestAForeignImageIsConvertedOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("starts a control plane, two rackds and machines; set IRONYARD_E2E=1")
	}
	conversions := counting(t)
	c := fleet.Default
	c.Machines = 8
	r := newRig(ctx, t, c)
	r.enrolled(ctx)
	dir := t.TempDir()
	raw, foreign := filepath.Join(dir, "raw"), filepath.Join(dir, "vmdk")
	if err := os.WriteFile(raw, bytes.Repeat([]byte("raw disk "), imageBytes/9+1)[:imageBytes], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=streamOptimized", raw, foreign).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	ours := conversions()
	if ours != 1 {
		t.Fatalf("one conversion of this test's own was counted as %d", ours)
	}
	body, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(body))
	}))
	t.Cleanup(s.Close)
	written := map[string]int{}
	deploy := func(of []*fleet.Member) {
		t.Helper()
		r.each(ctx, "set the image", of, func(ctx context.Context, _ *fleet.Member, node string) error {
			return r.o.SetImage(ctx, node, operator.Image{URL: s.URL + "/image.vmdk", SHA256: hexSum(body), DiskFormat: "vmdk"})
		})
		r.each(ctx, "deploy", of, func(ctx context.Context, _ *fleet.Member, node string) error {
			if err := r.o.Ask(ctx, node, "active", nil); err != nil {
				return err
			}
			_, err := r.o.Wait(ctx, node, provision.Active)
			return err
		})
		for _, m := range of {
			_, image := m.Disk.Holds()
			written[image]++
		}
	}
	deploy(r.fleet.Members[:6])
	made := conversions() - ours
	if made < 1 || made > len(r.rackd) {
		t.Errorf("6 machines and %d rackds made %d conversions", len(r.rackd), made)
	}
	if made == len(r.rackd) {
		deploy(r.fleet.Members[6:])
		if more := conversions() - ours; more != made {
			t.Errorf("two machines more made %d conversions more", more-made)
		}
	}
	if len(written) != 1 || written[hexSum(body)] != 0 {
		t.Errorf("the machines were given %v, and the vmdk file is %s", written, hexSum(body))
	}
	t.Logf("%d conversions", made)
	r.audited()
}
