package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/iscsideploy"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// BenchmarkRamdiskISCSI writes images from this host to the disk of a virtual machine that has booted the product's ramdisk. The agent
// exports the disk by the kernel's target (LIO). Rackd makes the whole step of the deploy interface iscsi: export, wipe, write with
// checksum, read-back, end of the target, partition table. By hand the disk is exported by the same agent, `qemu-img convert -t
// writeback` writes to it, with the checksum (`openssl`) before or without, and the export ends. The last way is that of people in the
// ramdisk itself, with the checksum, as BenchmarkRamdiskDirect has it. All write in turn, until the data is on the medium. ratio,
// cpu-ratio and what is set by the environment are those of BenchmarkRamdiskDirect, and inside-ratio is that to the last way. The
// writer's processor time is shown apart from the machine's. With IRONYARD_BENCH_DIGESTS=none the target takes no CRC32C; QEMU's
// initiator offers none for data.
func BenchmarkRamdiskISCSI(b *testing.B) {
	v := bootRamdisk(b)
	first := &target{v: v, b: b} // the kernel's modules are loaded for it
	first.start()
	first.stop()
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			sum := v.sum(k.name)
			t := &target{v: v, b: b}
			var spent float64
			writer := func() float64 { return spent }
			v.beside(b, []way{
				{name: "rackd", write: func() { spent = v.byRackd(b, k.name, sum, k.format) }, writer: writer},
				{name: "peer", write: func() { spent = t.byHand(k.name, sum, k.format) }, writer: writer},
				{name: "unchecked", write: func() { spent = t.byHand(k.name, "", k.format) }, writer: writer},
				{name: "inside", write: func() { v.byHand(b, v.at+k.name, sum, k.format) }},
			})
		})
	}
}

// exporter is the machine's agent as rackd sees it. Its target is reached through a port of this host.
type exporter struct {
	driver.Agent
	vm *agentvm.VM
	b  *testing.B
}

// Host implements driver.Agent.
func (*exporter) Host() string { return "127.0.0.1" }

// Command implements driver.Agent.
func (*exporter) Command(context.Context, string) (agentapi.Command, bool, error) {
	return agentapi.Command{Status: agentapi.CommandSucceeded}, true, nil
}

// Call implements driver.Agent.
func (e *exporter) Call(ctx context.Context, _ driver.Fence, _, name string, params any) (agentapi.Command, error) {
	c := e.vm.Run(ctx, name, params)
	if c.Status != agentapi.CommandSucceeded {
		return c, fmt.Errorf("%s: %+v", name, c.Error)
	}
	if name != agentapi.CmdStartISCSI {
		return c, nil
	}
	var is agentapi.StartISCSIResult
	if err := json.Unmarshal(c.Result, &is); err != nil {
		return c, err
	}
	is.Port = e.vm.Opened
	if os.Getenv("IRONYARD_BENCH_DIGESTS") == "none" { // the target's word counts
		e.vm.Shell(ctx, e.b, fmt.Sprintf("for d in Header Data; do echo None > /sys/kernel/config/target/iscsi/%s/tpgt_1/param/${d}Digest; done", is.IQN))
	}
	var err error
	c.Result, err = json.Marshal(is)
	return c, err
}

// cached is a rack's cache with one file.
type cached struct {
	driver.Images
	path string
}

// File implements driver.ImageFiles.
func (c cached) File(string) (*os.File, func(), error) {
	f, err := os.Open(c.path)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

// used is the processor time of this process so far, in seconds.
func used(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// byRackd has rackd make the step write_image, and returns the processor time, in seconds.
func (v *virtual) byRackd(b *testing.B, name, sum, format string) float64 {
	b.Helper()
	before := used(b)
	rig := drivertest.NewRig()
	w := iscsideploy.NewWriter(iscsideploy.Settings{Port: imagePort})
	order := direct.Order{
		Prepare: func(context.Context) (driver.DiskImage, error) {
			return driver.DiskImage{HashAlgo: "sha256", HashValue: sum, Format: format}, nil
		},
		Info: func(driver.DiskImage) agentapi.ImageInfo {
			return agentapi.ImageInfo{ID: "bench", ImageType: agentapi.ImageWholeDisk, BootMode: "bios", MinDiskBytes: 1}
		},
	}
	for id := uuid.NewString(); ; {
		task := rig.Task(networkboot.IPXE())
		task.WorkID, task.Agent, task.Images = id, &exporter{vm: v.VM, b: b}, cached{rig, filepath.Join(v.dir, name)}
		task.ConfigDrive = func(context.Context) (string, error) { return "", nil }
		written, out, err := w.WriteImage(v.ctx, task, order)
		if err != nil {
			b.Fatalf("rackd: %v", err)
		}
		if _, waits := out.Waiting(); waits {
			continue
		}
		if written.Written.DoneBytes != v.size {
			b.Fatalf("rackd has written %+v", written)
		}
		return used(b) - before
	}
}

// target is one that people write to.
type target struct {
	v  *virtual
	b  *testing.B
	is agentapi.StartISCSIParams
}

func (t *target) start() {
	t.b.Helper()
	id := uuid.NewString()
	t.is = agentapi.StartISCSIParams{IQN: "iqn.2008-10.org.openstack:" + id, PortalPort: imagePort, WipeDiskMetadata: true,
		Image: agentapi.ImageInfo{MinDiskBytes: 1}, Initiator: "iqn.2026-11.org.example:" + id, User: "user-" + id, Secret: "secret-" + id}
	t.done(agentapi.CmdStartISCSI, t.is)
}

func (t *target) stop() {
	t.b.Helper()
	t.done(agentapi.CmdStopISCSI, agentapi.StopISCSIParams{})
}

// done is a command that succeeds.
func (t *target) done(name string, params any) {
	t.b.Helper()
	if c := t.v.Run(t.v.ctx, name, params); c.Status != agentapi.CommandSucceeded {
		t.b.Fatalf("%s: %+v", name, c.Error)
	}
}

// byHand exports the disk, writes with QEMU's initiator and ends the export. It returns the processor time, in seconds. An empty sum is
// not compared.
func (t *target) byHand(name, sum, format string) float64 {
	t.b.Helper()
	t.start()
	defer t.stop()
	to := fmt.Sprintf("driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=127.0.0.1:%d,file.target=%s,file.lun=1,"+
		"file.user=%s,file.password=%s,file.initiator-name=%s", t.v.Opened, t.is.IQN, t.is.User, t.is.Secret, t.is.Initiator)
	cmd := exec.Command("sh", "-ec", `[ -z "$4" ] || [ "$(openssl dgst -sha256 -r "$1" | cut -d" " -f1)" = "$4" ]
qemu-img convert -n -W -t writeback -f "$2" --target-image-opts "$1" "$3"`, "sh", filepath.Join(t.v.dir, name), format, to, sum)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.b.Fatalf("%v: %s", err, out)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}
