package iscsideploy

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/iscsi/iscsitest"
)

// agent exports a file by tgtd, as the ramdisk's agent does with a disk by the kernel's target.
type agent struct {
	driver.Agent
	t     *testing.T
	disk  string // file
	name  string // of the disk, as the agent calls it
	block int    // bytes of the disk's sectors; 0: 512
	// root is where the agent has laid out the root partition of a partition image.
	root   struct{ at, size int64 }
	target *iscsitest.Tgt
	orders []string
	starts []agentapi.StartISCSIParams
	finish agentapi.FinishISCSIParams
	// through returns the port that initiators are told in place of the target's; nil: they are told the target's.
	through func(address string, kill func()) int
	// fails is what the next order of a name ends with.
	fails map[string]error
}

func (a *agent) Host() string { return "127.0.0.1" }

func (a *agent) Command(context.Context, string) (agentapi.Command, bool, error) {
	return agentapi.Command{Status: agentapi.CommandSucceeded}, true, nil
}

// Call implements driver.Agent.
func (a *agent) Call(_ context.Context, f driver.Fence, id, name string, params any) (agentapi.Command, error) {
	a.t.Helper()
	if err := f.Check(); err != nil {
		return agentapi.Command{}, err
	}
	a.orders = append(a.orders, name)
	if err := a.fails[name]; err != nil {
		delete(a.fails, name)
		return agentapi.Command{}, err
	}
	answer := func(v any) (agentapi.Command, error) {
		raw, err := json.Marshal(v)
		return agentapi.Command{ID: id, Status: agentapi.CommandSucceeded, Result: raw}, err
	}
	if a.target != nil {
		a.target.Kill()
		a.target = nil
	}
	switch p := params.(type) {
	case agentapi.StartISCSIParams:
		a.starts = append(a.starts, p)
		a.target = iscsitest.StartBlocks(a.t, a.disk, max(a.block, 512), p.IQN, [2]string{p.User, p.Secret}, [2]string{p.TargetUser, p.TargetSecret})
		u, err := url.Parse("tcp://" + a.target.Address)
		if err != nil {
			a.t.Fatal(err)
		}
		port := json.Number(u.Port())
		n, _ := port.Int64()
		if a.through != nil {
			n = int64(a.through(a.target.Address, a.target.Kill))
		}
		return answer(agentapi.StartISCSIResult{IQN: p.IQN, RootDevice: "/dev/vda", Disk: a.name, Port: int(n), LUN: 1, RootOffset: a.root.at, RootBytes: a.root.size})
	case agentapi.FinishISCSIParams:
		a.finish = p
		done := agentapi.PrepareImageResult{RootDevice: "/dev/vda", RootUUID: "id"}
		if a.root.size > 0 {
			done.PartitionUUIDs = &agentapi.PartitionUUIDs{Root: "root", ESP: "esp"}
		}
		return answer(done)
	case agentapi.StopISCSIParams:
		return answer("stopped")
	}
	a.t.Errorf("unknown order %s", name)
	return agentapi.Command{}, nil
}

// cache is a rack's cache with one file.
type cache struct {
	driver.Images
	path string
}

func (c cache) File(string) (*os.File, func(), error) {
	f, err := os.Open(c.path)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

// sumOf is the SHA-256 of a file in hex.
func sumOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

const diskSize, imageSize = 24 << 20, 20<<20 + 512

// content is a disk image with data, zeros, and an odd end.
func content() []byte {
	img := make([]byte, imageSize)
	rand.NewChaCha8([32]byte{3}).Read(img)
	clear(img[3<<20 : 9<<20])
	clear(img[12<<20+4096 : 13<<20])
	return img
}

// rig is a node whose disk is a file of noise.
type rig struct {
	*drivertest.Rig
	t     *testing.T
	agent *agent
	cache cache
	iface Interface
}

func newRig(t *testing.T, file []byte, fields map[string]any) *rig {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs tgt (Debian's package); set IRONYARD_E2E=1")
	}
	dir := t.TempDir()
	r := &rig{Rig: drivertest.NewRig(), t: t, agent: &agent{t: t, disk: filepath.Join(dir, "disk"), name: "one", fails: map[string]error{}}, iface: New(direct.New(direct.Settings{}), NewWriter(Settings{Stall: 20 * time.Second}))}
	r.cache = cache{r.Rig, filepath.Join(dir, "image")}
	noise := make([]byte, diskSize)
	rand.NewChaCha8([32]byte{4}).Read(noise)
	if err := errors.Join(os.WriteFile(r.agent.disk, noise, 0o600), os.WriteFile(r.cache.path, file, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.Node.InstanceInfo = map[string]any{"image_source": "http://i/os.img", "image_checksum": sumOf(file)}
	for k, v := range fields {
		r.Node.InstanceInfo[k] = v
	}
	return r
}

// task is that of a rackd that goes on with the step.
func (r *rig) task() *driver.Task {
	task := r.Task(networkboot.IPXE())
	task.Agent, task.Images = r.agent, r.cache
	return task
}

func (r *rig) step(i Interface) func() (driver.Outcome, error) {
	for _, s := range i.DeploySteps(r.Node) {
		if s.Name == "write_image" {
			return func() (driver.Outcome, error) { return s.Run(r.t.Context(), r.task()) }
		}
	}
	r.t.Fatal("no step write_image")
	return nil
}

// through runs the step to its end.
func (r *rig) through(i Interface) error {
	run := r.step(i)
	for {
		out, err := run()
		if _, waits := out.Waiting(); err != nil || !waits {
			return err
		}
	}
}

// holds compares the disk with the image.
func (r *rig) holds(want []byte) {
	r.t.Helper()
	got, err := os.ReadFile(r.agent.disk)
	if err != nil || !bytes.Equal(got[:len(want)], want) {
		r.t.Errorf("the disk holds another thing than the image (%v)", err)
	}
}

// Raw, unpacked and sparse images arrive as they are. The target has credentials of its own, and ends before the agent finishes.
func TestImagesArrive(t *testing.T) {
	img := content()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(img); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	xz := exec.Command("xz", "-1", "-c")
	xz.Stdin = bytes.NewReader(img)
	squeezed, err := xz.Output()
	if err != nil {
		t.Fatalf("xz: %v", err)
	}
	dir := t.TempDir()
	plain, sparse := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	if err := os.WriteFile(plain, img, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", plain, sparse).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	qcow2, err := os.ReadFile(sparse)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file   []byte
		fields map[string]any
	}{
		"raw":          {img, nil},
		"xz":           {squeezed, map[string]any{"image_compression": "xz"}},
		"gzip, padded": {append(bytes.Clone(packed.Bytes()), make([]byte, 5000)...), map[string]any{"image_compression": "gzip"}},
		"gzip":         {packed.Bytes(), map[string]any{"image_compression": "gzip"}},
		"qcow2":        {qcow2, map[string]any{"image_disk_format": "qcow2"}},
	} {
		r := newRig(t, c.file, c.fields)
		if err := r.through(r.iface); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r.holds(img)
		if got := r.task().Facts["root_uuid"]; got != "id" {
			t.Errorf("%s: root_uuid is %q", name, got)
		}
		first := r.agent.starts[0]
		if len(r.agent.starts) != 1 || !first.WipeDiskMetadata || r.agent.finish.Disk != "one" || r.agent.finish.ImageBytes != imageSize || r.agent.finish.ConfigDrive != "ZHJpdmU=" || strings.Contains(r.HandleText(), first.Secret) {
			t.Errorf("%s: %+v, %+v, handle %s", name, r.agent.starts, r.agent.finish, r.HandleText())
		}
		if p := r.Progress; p.DoneBytes < imageSize {
			t.Errorf("%s: progress %+v", name, p)
		}
	}
}

// A target that dies in the middle is asked for again, and the write goes on where it was: by this rackd, or by another.
func TestWriteGoesOn(t *testing.T) {
	img := content()
	r := newRig(t, img, nil)
	// What the handle says is on the disk is not written again, so it must be there.
	disk, err := os.ReadFile(r.agent.disk)
	if err != nil {
		t.Fatal(err)
	}
	const done = 6 << 20
	copy(disk[headSize:done], img[headSize:done])
	if err := os.WriteFile(r.agent.disk, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.task().Record.SaveHandle(t.Context(), handle{Disk: "one", Done: done, Image: "sha256-" + sumOf(img)}); err != nil {
		t.Fatal(err)
	}
	if err := r.through(New(direct.New(direct.Settings{}), NewWriter(Settings{}))); err != nil {
		t.Fatal(err)
	}
	r.holds(img)
	if r.agent.starts[0].WipeDiskMetadata {
		t.Error("a disk that holds half of the image was wiped")
	}
	if !strings.Contains(strings.Join(r.Phases, "\n"), "goes on behind 6 MB") {
		t.Errorf("phases %q", r.Phases)
	}

	// A disk that lost what it was said to hold is found out.
	r.NextStep()
	if err := os.WriteFile(r.agent.disk, make([]byte, diskSize), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.task().Record.SaveHandle(t.Context(), handle{Disk: "one", Done: imageSize, Image: "sha256-" + sumOf(img)}); err != nil {
		t.Fatal(err)
	}
	if err := r.through(r.iface); err == nil || !strings.Contains(err.Error(), "does not hold what was written") || r.agent.orders[len(r.agent.orders)-1] != agentapi.CmdStopISCSI {
		t.Errorf("a disk that keeps nothing: %v, orders %v", err, r.agent.orders)
	}
	// An agent that has started again has the image written from its start.
	r.NextStep()
	r.agent.name, r.agent.starts = "two", nil
	if err := r.task().Record.SaveHandle(t.Context(), handle{Disk: "one", Done: done, Image: "sha256-" + sumOf(img)}); err != nil {
		t.Fatal(err)
	}
	if err := r.through(r.iface); err != nil || len(r.agent.starts) != 2 || !r.agent.starts[1].WipeDiskMetadata {
		t.Errorf("%v, starts %d", err, len(r.agent.starts))
	}
	r.holds(img)
	// A successor of one that had kept no progress begins at the start, and blames no agent.
	r.NextStep()
	r.agent.name, r.agent.starts = "three", nil
	if err := r.task().Record.SaveHandle(t.Context(), handle{Disk: "two"}); err != nil {
		t.Fatal(err)
	}
	if err := r.through(r.iface); err != nil || len(r.agent.starts) != 1 || !r.agent.starts[0].WipeDiskMetadata || strings.Contains(r.HandleText(), "again") {
		t.Errorf("%v, starts %d, handle %s", err, len(r.agent.starts), r.HandleText())
	}
}

// What goes wrong: the fence, a dead target, a damaged copy, an agent that refuses.
func TestWhatEndsAWrite(t *testing.T) {
	img := content()
	r := newRig(t, img, nil)
	r.agent.fails[agentapi.CmdStartISCSI] = &driver.FailedError{Command: agentapi.CmdStartISCSI, Type: "ISCSIError", Text: "no module"}
	if err := r.through(r.iface); err == nil || !strings.HasPrefix(errText(err), "Failed to start the iSCSI target to deploy the node 5f0c. Error: ") {
		t.Errorf("an agent that refuses: %v", err)
	}
	r.NextStep()
	task := r.task()
	fence := &drivertest.Fence{}
	task.Fence = fence
	fence.LoseAfter(1)
	for _, s := range r.iface.DeploySteps(r.Node) {
		if s.Name == "write_image" {
			if _, err := s.Run(t.Context(), task); !errors.Is(err, driver.ErrFenced) {
				t.Errorf("a node that is lost: %v", err)
			}
		}
	}
	if got, err := os.ReadFile(r.agent.disk); err != nil || bytes.Contains(got, img[4<<10:8<<10]) || bytes.Contains(got, img[2<<20:2<<20+4096]) {
		t.Errorf("a rackd that has lost the node writes (%v)", err)
	}

	r.NextStep()
	r.Node.InstanceInfo["image_checksum"] = strings.Repeat("ab", 32)
	if err := r.through(r.iface); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged copy: %v", err)
	}
	if got, err := os.ReadFile(r.agent.disk); err != nil || bytes.Contains(got[:headSize], img[:4096]) {
		t.Errorf("a damaged image boots (%v)", err)
	}
	if n := len(r.Writes("verify image")); n != agains {
		t.Errorf("verified %d times", n)
	}
}

func errText(err error) string { return err.Error() }

// judged is a cache that tells by the content what an image is.
type judged struct {
	cache
	is    driver.DiskImage
	asked *driver.ImageSource
}

func (j judged) PrepareDisk(_ context.Context, src driver.ImageSource) (driver.DiskImage, error) {
	*j.asked = src
	return j.is, nil
}

// The rack's cache is told that a qcow2 file is read out of order here. A file that it has not unpacked all the same is refused before the
// machine is touched.
func TestAPackedQcow2FileIsUnpackedByTheCache(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.InstanceInfo = map[string]any{"image_source": "http://i/os.img", "image_checksum": strings.Repeat("ab", 32)}
	var asked driver.ImageSource
	for name, i := range map[string]interface {
		DeploySteps(*node.Document) []driver.Step
	}{"iscsi": New(direct.New(direct.Settings{}), NewWriter(Settings{})), "direct": direct.New(direct.Settings{})} {
		task := r.Task(networkboot.IPXE())
		task.Images = judged{is: driver.DiskImage{Format: "qcow2", Unpacked: "xz"}, asked: &asked}
		if _, err := i.DeploySteps(r.Node)[0].Run(t.Context(), task); err != nil || asked.Seekable != (name == "iscsi") {
			t.Errorf("%s: seekable %v, %v", name, asked.Seekable, err)
		}
	}
	if said := strings.Join(r.Phases, "\n"); !strings.Contains(said, "unpacked from xz") {
		t.Errorf("phases %q", said)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := openSource(f, driver.DiskImage{Format: "qcow2", Compression: "xz"}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "a qcow2 file within xz") {
		t.Errorf("not unpacked: %v", err)
	}
}

// A node is refused whose image cannot be read in this way.
func TestValidate(t *testing.T) {
	r := drivertest.NewRig()
	i := New(direct.New(direct.Settings{}), NewWriter(Settings{}))
	for name, c := range map[string]struct {
		instance map[string]any
		wants    string // of the refusal; empty: it is taken
	}{
		"raw":               {map[string]any{"image_source": "http://i/os.raw"}, ""},
		"qcow2":             {map[string]any{"image_source": "http://i/os", "image_disk_format": "qcow2", "image_compression": "none"}, ""},
		"what is not said":  {map[string]any{"image_source": "http://i/os.qcow2.gz"}, ""},
		"packed qcow2":      {map[string]any{"image_source": "http://i/os", "image_disk_format": "qcow2", "image_compression": "gz"}, ""},
		"a partition image": {map[string]any{"image_source": "http://i/os", "image_type": "partition", "root_gb": 1}, ""},
		"one without root":  {map[string]any{"image_source": "http://i/os", "image_type": "partition"}, "instance_info.root_gb"},
		"none":              {nil, "no image_source"},
	} {
		r.Node.InstanceInfo = map[string]any{"image_checksum": strings.Repeat("ab", 32)}
		maps.Copy(r.Node.InstanceInfo, c.instance)
		err := i.Validate(r.Node)
		if (err != nil) != (c.wants != "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.wants)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
