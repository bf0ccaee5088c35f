package iscsi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/iscsi"
)

const diskSize = 64 << 20

// order is what rackd asks for, with secrets of its own for each session. The kernel leaves what was there before in the bytes that
// fill its answers up, and libiscsi 1.19 reads them. With names of ten bytes for the target there are none.
func order(n int) agentapi.StartISCSIParams {
	return agentapi.StartISCSIParams{IQN: fmt.Sprintf("iqn.2008-10.org.openstack:disk-%d", n), PortalPort: agentapi.DefaultISCSIPort,
		Image: agentapi.ImageInfo{MinDiskBytes: 1 << 20}, Initiator: fmt.Sprintf("iqn.2026-11.dev.ironyard:rackd-%d", n),
		User: fmt.Sprintf("initiator-%d", n), Secret: fmt.Sprintf("secret-of-rackd-%d", n), TargetUser: fmt.Sprintf("target-00%d", n), TargetSecret: fmt.Sprintf("secret-of-agent-%d", n)}
}

// machine is one with a disk of noise.
type machine struct {
	*agentvm.VM
	t    *testing.T
	ctx  context.Context
	disk string
}

// boot starts it, with programs of this host beside the agent for its shell.
func boot(t *testing.T, programs ...string) *machine {
	t.Helper()
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("boots the ramdisk in QEMU and needs libiscsi-bin (Debian's package): run `make hardware`, or set IRONYARD_HARDWARE=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	m := &machine{t: t, ctx: ctx, disk: filepath.Join(t.TempDir(), "disk")}
	noise := make([]byte, diskSize)
	rand.NewChaCha8([32]byte{9}).Read(noise)
	if err := os.WriteFile(m.disk, noise, 0o600); err != nil {
		t.Fatal(err)
	}
	m.VM = agentvm.Boot(ctx, t, agentvm.Build(t, debkernel.Cloud), agentvm.Hardware{Mode: "bios", NIC: "virtio-net-pci", Opens: agentapi.DefaultISCSIPort, Programs: programs, Drives: []string{
		"-drive", "if=none,id=d,format=raw,cache=unsafe,discard=unmap,file=" + m.disk, "-device", "virtio-blk-pci,drive=d,serial=DISK1"}}, nil)
	return m
}

// done is a command that succeeds.
func (m *machine) done(name string, params, result any) {
	m.t.Helper()
	c := m.Run(m.ctx, name, params)
	if c.Status != agentapi.CommandSucceeded {
		m.t.Fatalf("%s: %+v", name, c.Error)
	}
	if result != nil {
		if err := json.Unmarshal(c.Result, result); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) login(p agentapi.StartISCSIParams) (*iscsi.Session, error) {
	return iscsi.Connect(m.ctx, iscsi.Target{Address: fmt.Sprintf("127.0.0.1:%d", m.Opened), IQN: p.IQN, LUN: 1, Initiator: p.Initiator,
		CHAP: iscsi.CHAP{User: p.User, Secret: p.Secret, TargetUser: p.TargetUser, TargetSecret: p.TargetSecret}}, iscsi.Options{})
}

// The agent's target as rackd's initiator and those of libiscsi and QEMU see it.
func TestTargetOfTheAgent(t *testing.T) {
	m := boot(t)
	p := order(1)
	p.WipeDiskMetadata = true
	var first agentapi.StartISCSIResult
	began := time.Now()
	m.done(agentapi.CmdStartISCSI, p, &first)
	t.Logf("exported in %.1f s: %+v", time.Since(began).Seconds(), first)
	s, err := m.login(p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Disk(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d.Size() != diskSize || d.Block() != 512 {
		t.Errorf("a disk of %d bytes in blocks of %d", d.Size(), d.Block())
	}
	m.writes(d)
	for what, change := range map[string]func(*agentapi.StartISCSIParams){
		"a wrong secret":      func(p *agentapi.StartISCSIParams) { p.Secret = "wrong-wrong-wrong" },
		"another initiator":   func(p *agentapi.StartISCSIParams) { p.Initiator += "x" },
		"no credentials":      func(p *agentapi.StartISCSIParams) { p.User = "" },
		"another target":      func(p *agentapi.StartISCSIParams) { p.IQN += "x" },
		"a target's impostor": func(p *agentapi.StartISCSIParams) { p.TargetSecret = "wrong-wrong-wrong" },
	} {
		wrong := p
		change(&wrong)
		if other, err := m.login(wrong); err == nil {
			other.Close()
			t.Errorf("%s is let in", what)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}

	// Another start, as another rackd gives it, ends this session.
	next := order(2)
	var second agentapi.StartISCSIResult
	m.done(agentapi.CmdStartISCSI, next, &second)
	if second.Disk != first.Disk {
		t.Error("the same disk, not wiped, has another name")
	}
	if w, err := d.Write(make([]byte, 512), 0); err != nil || w.Wait(m.ctx) == nil {
		t.Errorf("the session of before still writes (%v)", err)
	}
	if _, err := m.login(p); err == nil {
		t.Error("the credentials of before are still good")
	}
	for range 12 { // the numbers of the kernel's challenges have two digits then
		again, err := m.login(next)
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	}
	m.foreign(next)

	m.done(agentapi.CmdStopISCSI, agentapi.StopISCSIParams{Disk: second.Disk}, nil)
	m.gone(next)
	disk, err := os.ReadFile(m.disk)
	if err != nil || !bytes.Equal(disk[:1<<20], make([]byte, 1<<20)) || !bytes.Equal(disk[diskSize-1<<20:], make([]byte, 1<<20)) {
		t.Errorf("the ends of the disk are not wiped (%v)", err)
	}
	// Commands that have to do with disks end a target, too.
	m.done(agentapi.CmdStartISCSI, next, nil)
	m.done(agentapi.CmdSync, struct{}{}, nil)
	m.gone(next)
}

// gone looks that the target is not there any more.
func (m *machine) gone(p agentapi.StartISCSIParams) {
	m.t.Helper()
	if s, err := m.login(p); err == nil {
		s.Close()
		m.t.Error("the target is still there")
	}
}

// writes writes as a deploy does, and compares with the file behind the machine's disk.
func (m *machine) writes(d *iscsi.Disk) {
	m.t.Helper()
	want, err := os.ReadFile(m.disk)
	if err != nil {
		m.t.Fatal(err)
	}
	if !bytes.Equal(want[:1<<20], make([]byte, 1<<20)) {
		m.t.Error("the disk's start was not wiped")
	}
	data := make([]byte, 16<<20)
	rand.NewChaCha8([32]byte{1}).Read(data)
	began := time.Now()
	var running []*iscsi.Pending
	for off := int64(0); off < int64(len(data)); off += iscsi.Largest {
		w, err := d.Write(data[off:off+iscsi.Largest], 4<<20+off)
		if err != nil {
			m.t.Fatal(err)
		}
		if running = append(running, w); len(running) > 8 {
			if err := running[0].Wait(m.ctx); err != nil {
				m.t.Fatal(err)
			}
			running = running[1:]
		}
	}
	for _, w := range running {
		if err := w.Wait(m.ctx); err != nil {
			m.t.Fatal(err)
		}
	}
	m.t.Logf("wrote %d bytes at %.0f MB/s", len(data), float64(len(data))/1e6/time.Since(began).Seconds())
	copy(want[4<<20:], data)
	for _, z := range [][2]int64{{24 << 20, 33 << 20}, {2<<20 + 512, 1024}} {
		var zeroing []*iscsi.Pending // at the same time
		for off, end := z[0], z[0]+z[1]; off < end; {
			w, n, err := d.Zero(off, end-off)
			if err != nil {
				m.t.Fatal(err)
			}
			zeroing, off = append(zeroing, w), off+n
		}
		for _, w := range zeroing {
			if err := w.Wait(m.ctx); err != nil {
				m.t.Fatal(err)
			}
		}
		clear(want[z[0] : z[0]+z[1]])
	}
	if err := d.Flush(m.ctx); err != nil {
		m.t.Fatal(err)
	}
	got, err := os.ReadFile(m.disk)
	if err != nil || !bytes.Equal(got, want) {
		m.t.Errorf("the machine's disk holds another thing than was written (%v)", err)
	}
	piece := make([]byte, 64<<10)
	for off := int64(0); off+64<<10 < diskSize; off += 7 << 20 {
		if err := d.Read(m.ctx, piece, off); err != nil || !bytes.Equal(piece, want[off:off+64<<10]) {
			m.t.Errorf("reading at %d: %v", off, err)
		}
	}
}

// foreign are libiscsi's programs and QEMU's initiator.
func (m *machine) foreign(p agentapi.StartISCSIParams) {
	m.t.Helper()
	portal := fmt.Sprintf("iscsi://127.0.0.1:%d", m.Opened)
	account := fmt.Sprintf("iscsi://%s%%%s@127.0.0.1:%d/%s/1?target_user=%s&target_password=%s", p.User, p.Secret, m.Opened, p.IQN, p.TargetUser, p.TargetSecret)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"iscsi-ls", "-i", p.Initiator, portal}, p.IQN},
		{[]string{"iscsi-inq", "-i", p.Initiator, account}, "LIO-ORG"},
		{[]string{"iscsi-readcapacity16", "-i", p.Initiator, "-s", account}, fmt.Sprint(diskSize)},
	} {
		out, err := exec.CommandContext(m.ctx, c.args[0], c.args[1:]...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			m.t.Errorf("%s: %v: %s", c.args[0], err, out)
		}
	}
	for _, test := range []string{"ALL.Mandatory", "ALL.Read16", "ALL.Write16", "ALL.WriteSame16.Simple", "ALL.WriteSame16.Check"} {
		out, err := exec.CommandContext(m.ctx, "iscsi-test-cu", "-i", p.Initiator, "--dataloss", "-t", test, account).CombinedOutput()
		m.t.Logf("iscsi-test-cu %s: %v: %s", test, err, summary.FindAll(out, -1))
		if err != nil || !summary.Match(out) {
			m.t.Errorf("iscsi-test-cu %s: %v\n%s", test, err, out)
		}
	}
	image := filepath.Join(m.t.TempDir(), "by-qemu")
	out, err := exec.CommandContext(m.ctx, "qemu-img", "convert", "-O", "raw", "--image-opts",
		fmt.Sprintf("driver=iscsi,transport=tcp,portal=127.0.0.1:%d,target=%s,lun=1,user=%s,password=%s,initiator-name=%s", m.Opened, p.IQN, p.User, p.Secret, p.Initiator), image).CombinedOutput()
	if err != nil {
		m.t.Errorf("qemu-img: %v: %s", err, out)
		return
	}
	there, err := os.ReadFile(m.disk)
	read, err2 := os.ReadFile(image)
	if errors.Join(err, err2) != nil || !bytes.Equal(there, read) {
		m.t.Errorf("qemu-img reads another disk than the machine's (%v, %v)", err, err2)
	}
}

// summary are the lines of iscsi-test-cu that count.
var summary = regexp.MustCompile(`(tests|asserts) +\d+ +\d+ +\d+ +0 `)
