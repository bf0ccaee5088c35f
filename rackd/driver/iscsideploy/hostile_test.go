package iscsideploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// What lies at an image's address, or its checksum by URL, has changed between two rackds, in a few bytes. Read back by samples
// the disk would pass as either.
func TestAnotherImageIsWrittenFromItsStart(t *testing.T) {
	before := content()
	now := bytes.Clone(before)
	copy(now[5<<20+4096:], "a fix of one block")
	r := newRig(t, now, nil)
	disk, err := os.ReadFile(r.agent.disk)
	if err != nil {
		t.Fatal(err)
	}
	const done = 10 << 20
	copy(disk[headSize:done], before[headSize:done])
	if err := os.WriteFile(r.agent.disk, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	kept := map[string]any{"disk": "one", "done": done, "image": "sha256-" + sumOf(before)}
	if err := r.task().Record.SaveHandle(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if err := r.through(r.iface); err != nil {
		t.Fatal(err)
	}
	r.holds(now)
	if last := r.agent.starts[len(r.agent.starts)-1]; !last.WipeDiskMetadata {
		t.Errorf("what the other image had begun is not wiped: %+v", r.agent.starts)
	}
}

// A checkpoint may be damaged, or another program's. What it counts is believed within bounds alone.
func TestADamagedCheckpoint(t *testing.T) {
	img := content()
	of := "sha256-" + sumOf(img)
	for name, c := range map[string]struct {
		handle string
		fails  string
	}{
		"of other types":       {`{"disk":1}`, "cannot be read"},
		"less than nothing":    {`{"disk":"one","done":-5,"image":"` + of + `"}`, "counts below zero"},
		"tries without end":    {`{"disk":"one","again":-1000000}`, "counts below zero"},
		"more than the image":  {`{"disk":"one","done":4611686018427387904,"image":"` + of + `"}`, ""},
		"the last try, more":   {`{"disk":"one","again":2,"done":4611686018427387904,"image":"` + of + `"}`, "handle is damaged"},
		"whole, of no disk":    {`{"whole":true,"size":-1}`, "counts below zero"},
		"of a newer program":   {`{"disk":"one","done":0,"image":"` + of + `","pieces":[1,2]}`, ""},
		"of an older program":  {`{}`, ""},
		"nothing but a number": {`7`, "cannot be read"},
	} {
		r := newRig(t, img, nil)
		if err := r.task().Record.SaveHandle(t.Context(), json.RawMessage(c.handle)); err != nil {
			t.Fatal(err)
		}
		err := r.through(r.iface)
		switch {
		case c.fails == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.fails == "":
			r.holds(img)
		case err == nil || !strings.Contains(err.Error(), c.fails) || len(r.agent.orders) > 0:
			t.Errorf("%s: %v, want %q, orders %q", name, err, c.fails, r.agent.orders)
		}
	}
}

// A file of the cache that rots on its disk is found out, also where the image's format is read out of order.
func TestARottenFileOfTheCacheDoesNotBoot(t *testing.T) {
	img := content()
	dir := t.TempDir()
	plain := filepath.Join(dir, "raw")
	if err := os.WriteFile(plain, img, 0o600); err != nil {
		t.Fatal(err)
	}
	made := func(args ...string) []byte {
		out := filepath.Join(dir, "out")
		if said, err := exec.Command("qemu-img", append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, args...), plain, out)...).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img: %v: %s", err, said)
		}
		file, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	gz, err := exec.Command("gzip", "-1", "-c", plain).Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file   []byte
		at     int // of the byte that rots, from the end if negative
		fields map[string]any
	}{
		"qcow2":               {made(), -100 << 10, map[string]any{"image_disk_format": "qcow2"}},
		"qcow2, compressed":   {made("-c"), -3 << 20, map[string]any{"image_disk_format": "qcow2"}},
		"qcow2, its header":   {made(), 1, map[string]any{"image_disk_format": "qcow2"}},
		"gzip, in the middle": {gz, 9 << 20, map[string]any{"image_compression": "gzip"}},
	} {
		r := newRig(t, c.file, c.fields)
		rotten := bytes.Clone(c.file)
		if c.at < 0 {
			c.at += len(rotten)
		}
		rotten[c.at] ^= 0x10
		if err := os.WriteFile(r.cache.path, rotten, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.through(r.iface); err == nil {
			t.Errorf("%s: written as if the file were whole", name)
		}
		if n := len(r.Writes("verify image")); n != agains {
			t.Errorf("%s: the cache was asked %d times to look at its file, want %d", name, n, agains)
		}
		if got, err := os.ReadFile(r.agent.disk); err != nil || bytes.Contains(got[:headSize], img[:4096]) {
			t.Errorf("%s: the damaged image boots (%v)", name, err)
		}
	}
}

// Many deploys that begin at once are held to the bound, too: each takes its place before it has a session.
func TestImagesThatBeginAtOnceAreBounded(t *testing.T) {
	w := NewWriter(Settings{})
	for i := range most {
		if tr, full := w.take(fmt.Sprint("w", i)); tr != nil || full {
			t.Fatalf("work %d: %v, full %v", i, tr, full)
		}
	}
	if _, full := w.take("one more"); !full {
		t.Errorf("%d images are written at once, want %d at most", most+1, most)
	}
	w.release("w3")
	if _, full := w.take("one more"); full {
		t.Error("the place of a deploy that did not begin stays taken")
	}
	if _, full := w.take("one more"); full {
		t.Error("a work that has a place waits for another")
	}
}

// The image is whole on its disk and could boot when the last part fails. The deploy has failed, so it must not.
func TestAnImageWithoutItsConfigDriveDoesNotBoot(t *testing.T) {
	r := newRig(t, content(), nil)
	r.agent.fails[agentapi.CmdFinishISCSI] = &driver.FailedError{Command: agentapi.CmdFinishISCSI, Type: "InvalidCommandParamsError", Text: "no config drive"}
	if err := r.through(r.iface); err == nil {
		t.Fatal("a config drive that cannot be written is none")
	}
	if last := r.agent.orders[len(r.agent.orders)-1]; last != agentapi.CmdStopISCSI {
		t.Errorf("orders %v: the disk is not wiped", r.agent.orders)
	}
}
