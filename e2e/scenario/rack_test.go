package scenario

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/rack"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/ipmisim"
	"github.com/ironyard/ironyard/ops/virtual/lab"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/testimage"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// theRack is shared by the tests of a run: bringing one up is cheap, but two at once
// would share two cores.
var (
	theRack *rack.Rack
	images  testimage.Images
	// armImages is the test image for machines of arm64, which make hardware has.
	armImages testimage.Images
	// longImage is a raw image whose write can be interrupted.
	longImage testimage.File
	// partitionCache keeps partition images, which the test that needs one builds, and kernelCache what comes of Debian's packages.
	// imageFolder is what the rack gets its images from.
	partitionCache, kernelCache, imageFolder string
	events                                   = &record[work.Event]{}
	works                                    = &record[work.Document]{}
)

func TestMain(m *testing.M) {
	if os.Getenv("IRONYARD_E2E") == "" {
		fmt.Println("not run: the end-to-end tests (set IRONYARD_E2E=1, or run make e2e)")
		os.Exit(0)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the virtual rack:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "ironyard-e2e-")
	if err != nil {
		return 1, err
	}
	ctx := context.Background()
	o, err := prepare(ctx, dir)
	if err != nil {
		return 1, err
	}
	err = rack.Run(ctx, o, func(_ context.Context, r *rack.Rack) error {
		theRack = r
		sub, err := r.Stack.Conn.Subscribe("EVENTS.>", events.add)
		if err != nil {
			return err
		}
		defer sub.Unsubscribe()
		if sub, err = r.Stack.Conn.Subscribe("$KV."+bus.WorkBucket+".>", works.add); err != nil {
			return err
		}
		defer sub.Unsubscribe()
		code = m.Run()
		return nil
	})
	if downErr := rack.Down(ctx, dir); err == nil {
		err = downErr
	}
	if code == 0 && err == nil {
		return 0, os.RemoveAll(dir)
	}
	fmt.Println("kept for a look:", dir)
	return code, err
}

func prepare(ctx context.Context, dir string) (rack.Options, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return rack.Options{}, err
	}
	cache := os.Getenv("IRONYARD_CACHE")
	if cache == "" {
		cache = filepath.Join(root, ".cache")
	}
	log, err := os.Create(filepath.Join(dir, "central.log"))
	if err != nil {
		return rack.Options{}, err
	}
	partitionCache, kernelCache, imageFolder = filepath.Join(cache, "partition"), filepath.Join(cache, "kernel"), filepath.Join(dir, "images")
	disk := 1024
	if os.Getenv("IRONYARD_BOOT") != "" {
		disk = 3072 // for partition images: sizes are in GiB there
	}
	o := rack.Options{Name: "e2e", Dir: dir, Listen: "127.0.0.1:0", Rackd: filepath.Join(root, "bin", "rackd"),
		Images: imageFolder, Log: slog.New(slog.NewTextHandler(log, nil)),
		Rackds:      2,
		RackdArgs:   []string{"--bmc-timeout", "5s"},
		Protocols:   map[string]lab.BMC{ipmisim.Protocol: ipmisim.Attach(ipmisim.Described)},
		FurtherBMCs: map[string][]string{"uefi-0": {ipmisim.Protocol}, "bios-0": {ipmisim.Protocol}},
		Machines: []machine.Config{
			{Name: "uefi-0", Firmware: machine.UEFI, DiskMiB: disk, USBStick: true}, {Name: "bios-0", Firmware: machine.BIOS, DiskMiB: disk, USBStick: true}, // which are erased
			{Name: "small-0", Firmware: machine.BIOS, DiskMiB: 32},
			{Name: "part-0", Firmware: machine.BIOS, DiskMiB: 3072}, {Name: "part-1", Firmware: machine.UEFI, DiskMiB: 3072}, // for partition images: sizes are in GiB there
			{Name: "http-0", Firmware: machine.UEFI, DiskMiB: disk, BootByVariables: true},  // whose BMC sets URLs to boot
			{Name: "bare-0", Firmware: machine.UEFI, Diskless: true, BootByVariables: true}, // which boots volumes alone
			{Name: "bare-1", Firmware: machine.BIOS, Diskless: true},                        // and so does this
		}}
	if err := makeFleetKeys(dir); err != nil {
		return o, err
	}
	o.RackdArgs = append(o.RackdArgs, "--uki", programPath(dir))
	// Its firmware knows the fleet's keys alone, and checks what it starts from the first time on.
	o.Machines = append(o.Machines, machine.Config{Name: "secure-0", Firmware: machine.UEFI, DiskMiB: 1024, BootByVariables: true, SecureBoot: true,
		VariablesFrom: filepath.Join(dir, fleetVariables), KeysFrom: filepath.Join(dir, fleetVariables)})
	g, ctx := errgroup.WithContext(ctx)
	var rescueProgram string
	if os.Getenv("IRONYARD_BOOT") != "" {
		playbooks := filepath.Join(dir, "playbooks")
		if err := preparePlaybooks(playbooks); err != nil {
			return o, err
		}
		o.RackdArgs = append(o.RackdArgs, "--ansible-dir", playbooks)
	}
	if os.Getenv("IRONYARD_HARDWARE") != "" {
		// Firmware of the first boots by PXE, and that of the second by HTTP, as its BMC says.
		o.Machines = append(o.Machines, machine.Config{Name: "arm-0", Firmware: machine.UEFI, Arch: machine.AArch64, DiskMiB: 1024},
			machine.Config{Name: "arm-1", Firmware: machine.UEFI, Arch: machine.AArch64, DiskMiB: 1024, BootByVariables: true},
			// whose firmware knows Microsoft's keys, as it is delivered, and checks what it starts
			machine.Config{Name: "factory-0", Firmware: machine.UEFI, DiskMiB: 1024, SecureBoot: true, VariablesFrom: factoryVariables, KeysFrom: factoryVariables},
			machine.Config{Name: "six-0", Firmware: machine.UEFI, DiskMiB: 1024, BootByVariables: true, IPv6: true},
			// whose two cards are plugged into a switch that speaks LACP
			machine.Config{Name: "bond-0", Firmware: machine.UEFI, DiskMiB: 1024, FurtherCards: make([]machine.Card, 1)},
			// whose BMCs have no drive of a CD
			machine.Config{Name: "stick-0", Firmware: machine.UEFI, DiskMiB: 1024, USBStick: true, NoCD: true},
			machine.Config{Name: "stick-1", Firmware: machine.BIOS, DiskMiB: 1024, USBStick: true, NoCD: true},
			// whose BMCs have a floppy drive, too
			machine.Config{Name: "floppy-0", Firmware: machine.UEFI, DiskMiB: 1024, USBFloppy: true},
			machine.Config{Name: "floppy-1", Firmware: machine.BIOS, DiskMiB: 1024, USBStick: true, USBFloppy: true, NoCD: true})
		programs := filepath.Join(cache, "arm64")
		o.RackdArgs = append(o.RackdArgs, "--uki-arm64", filepath.Join(programs, "ironyard-arm64.efi"), "--rescue-uki-arm64", filepath.Join(programs, "ironyard-rescue-arm64.efi"))
		g.Go(func() error { return prepareARM64(ctx, root, cache, programs) })
	}
	g.Go(func() error {
		r, err := ramdisk.Build(ctx, ramdisk.Options{Agent: filepath.Join(root, "bin", "agent"), KernelPackage: debkernel.Cloud,
			CacheDir: filepath.Join(cache, "kernel"), OutDir: filepath.Join(cache, "ramdisk"), UKI: &ramdisk.UKI{Params: "console=ttyS0,115200"}})
		if o.Kernel, o.Ramdisk = r.Kernel, r.Initramfs; err != nil {
			return err
		}
		unsigned, err = os.ReadFile(r.UKI)
		return errors.Join(err, os.WriteFile(programPath(dir), unsigned, 0o644))
	})
	g.Go(func() error {
		rescue := ramdisk.Options{Agent: filepath.Join(root, "bin", "agent"), KernelPackage: debkernel.Cloud, Rescue: true,
			CacheDir: filepath.Join(cache, "kernel"), OutDir: filepath.Join(cache, "rescue")}
		if os.Getenv("IRONYARD_BOOT") != "" { // for firmware that loads the ramdisk as one program
			rescue.UKI = &ramdisk.UKI{Params: "console=ttyS0,115200"}
		}
		r, err := ramdisk.Build(ctx, rescue)
		o.RescueRamdisk, rescueProgram = r.Initramfs, r.UKI
		return err
	})
	g.Go(func() (err error) {
		images, err = testimage.Build(ctx, testimage.Options{CacheDir: filepath.Join(cache, "kernel"), OutDir: filepath.Join(cache, "image")})
		return err
	})
	if err := g.Wait(); err != nil {
		return o, err
	}
	if rescueProgram != "" {
		o.RackdArgs = append(o.RackdArgs, "--rescue-uki", rescueProgram)
	}
	return o, errors.Join(offer(o), offerByClass(&o))
}

// ramdiskClass is the resource class of machines whose ramdisk is longer than that of others by paddingBytes of zeros, which
// kernels skip.
const (
	ramdiskClass = "padded"
	paddingBytes = 1 << 20
)

// paddedBytes is how long the ramdisk of that class is.
var paddedBytes int64

// offerByClass gives the rackds a ramdisk for machines of that class.
func offerByClass(o *rack.Options) error {
	ramdisk, err := os.ReadFile(o.Ramdisk)
	if err != nil {
		return err
	}
	ramdisk = append(ramdisk, make([]byte, paddingBytes)...)
	paddedBytes = int64(len(ramdisk))
	path := filepath.Join(o.Dir, "padded.initramfs")
	o.RackdArgs = append(o.RackdArgs, "--ramdisk-for", "class="+ramdiskClass+",kernel="+o.Kernel+",ramdisk="+path)
	return os.WriteFile(path, ramdisk, 0o644)
}

// Names of a kernel and a ramdisk that a node brings itself.
const (
	ownKernel  = "own-kernel"
	ownRamdisk = "own-ramdisk"
)

// offer fills the folder that the rack gets its images from.
func offer(o rack.Options) error {
	if err := os.Mkdir(o.Images, 0o755); err != nil {
		return err
	}
	links := map[string]string{filepath.Base(images.QCOW2.Path): images.QCOW2.Path, ownKernel: o.Kernel, ownRamdisk: o.Ramdisk}
	if armImages.QCOW2.Path != "" {
		links[armImage] = armImages.QCOW2.Path
	}
	for name, path := range links {
		if err := os.Symlink(path, filepath.Join(o.Images, name)); err != nil {
			return err
		}
	}
	var err error
	longImage, err = lengthen(images.Raw.Path, filepath.Join(o.Images, "long.raw"))
	return err
}

// lengthen adds so much noise to a raw image that writing it takes a while.
func lengthen(from, to string) (f testimage.File, err error) {
	in, err := os.Open(from)
	if err != nil {
		return f, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := sha256.New()
	noise := io.LimitReader(rand.NewChaCha8([32]byte{}), 96<<20)
	n, err := io.Copy(io.MultiWriter(out, h), io.MultiReader(in, noise))
	return testimage.File{Path: to, SHA256: hex.EncodeToString(h.Sum(nil)), Size: n}, err
}

// record keeps what came over the bus, and lets a test wait for it.
type record[T any] struct {
	mu      sync.Mutex
	all     []T
	waiters []chan struct{}
}

func (l *record[T]) add(m *nats.Msg) {
	var e T
	if json.Unmarshal(m.Data, &e) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
	for _, w := range l.waiters {
		close(w)
	}
	l.waiters = nil
}

// wait waits for the first that fits, among all that came and will come.
func (l *record[T]) wait(ctx context.Context, t *testing.T, what string, fits func(T) bool) T {
	t.Helper()
	for seen := 0; ; {
		l.mu.Lock()
		for ; seen < len(l.all); seen++ {
			if e := l.all[seen]; fits(e) {
				l.mu.Unlock()
				return e
			}
		}
		more := make(chan struct{})
		l.waiters = append(l.waiters, more)
		l.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("no %s: %v", what, context.Cause(ctx))
		}
	}
}

// matching returns those that fit, so far.
func (l *record[T]) matching(fits func(T) bool) (out []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if fits(e) {
			out = append(out, e)
		}
	}
	return out
}

// alone leaves one rackd until the end of the test.
func alone(t *testing.T) *rack.Rackd {
	t.Helper()
	for _, d := range theRack.Rackds[1:] {
		d.Stop()
		t.Cleanup(func() { revive(t, d) })
	}
	return theRack.Rackds[0]
}

func revive(t *testing.T, d *rack.Rackd) {
	t.Helper()
	if d.Running() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Start(ctx); err != nil {
		t.Errorf("%s does not come back: %v", d.Name, err)
	}
}

// limit bounds a test's waiting; under software emulation a boot takes most of a minute.
func limit(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, fmt.Errorf("not within %s", d))
	t.Cleanup(cancel)
	return ctx
}

// qcow2 is the test image as an operator names it.
func qcow2() operator.Image {
	return operator.Image{URL: theRack.ImageURL(filepath.Base(images.QCOW2.Path)), SHA256: images.QCOW2.SHA256, DiskFormat: "qcow2"}
}

// long is the image whose write takes a while, as an operator names it.
func long() operator.Image {
	return operator.Image{URL: theRack.ImageURL(filepath.Base(longImage.Path)), SHA256: longImage.SHA256, DiskFormat: "raw"}
}

// enrolled enrols a machine and deletes its node when the test ends.
func enrolled(ctx context.Context, t *testing.T, name string, change func(*operator.Machine)) string {
	t.Helper()
	m, err := theRack.Enrolment(name)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&m)
	}
	id, err := theRack.Operator.Enrol(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of what %s said at its console:\n%s", name, lastWords(name))
			given(name, id)
			return
		}
		if err := theRack.Operator.Delete(context.Background(), id); err != nil {
			t.Errorf("delete node %s: %v", name, err)
		}
	})
	return id
}

// given gives the machine of a test that failed to those after it.
func given(name, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(theRack.Operator.Power(ctx, id, "power off"), theRack.Operator.WaitPower(ctx, id, "power off"),
		theRack.Operator.Set(ctx, id, "/maintenance", true), theRack.Operator.Delete(ctx, id)); err != nil {
		fmt.Fprintf(os.Stderr, "%s stays with the test that failed: %v\n", name, err)
	}
}

// lastWords are the end of what a machine has said at its console.
func lastWords(name string) string {
	serial, err := theRack.Serial(name, 0)
	if err != nil {
		return err.Error()
	}
	all, err := os.ReadFile(serial.Path())
	if err != nil {
		return err.Error()
	}
	return string(all[max(0, len(all)-4_000):])
}
