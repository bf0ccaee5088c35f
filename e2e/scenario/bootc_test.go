package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/container/containertest"
	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/partitionimage"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// byContainer is the deploy interface bootc with a script in the place of bootc, which no package of Debian has. Podman, the registry and
// the system that is installed are real.
const byContainer = "bootc, by a script in bootc's place"

// Of the registry: its port in the rack's network, the account that it asks for, and where the images of a run are.
const (
	containerPort    = "5000"
	containerAccount = "tenant:0pen-sesame"
	containerRamdisk = "podman-ramdisk"
	containerStore   = "registry"
)

// containerKey is whose owner the instance lets in.
const containerKey = "ssh-ed25519 AAAA tenant"

// Tags of the system's image: one that is installed, one that fails in the middle, and one that takes its time.
const (
	tagPlain = "1"
	tagFails = "fails"
	tagSlow  = "slow"
)

// slowSeconds is how long the last of them waits in the middle.
const slowSeconds = 30

// makeContainers makes the images and the ramdisk with podman, at the first call.
func makeContainers(ctx context.Context) error {
	at := filepath.Join(imageFolder, containerRamdisk)
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	layer, err := partitionimage.Container(ctx, kernelCache)
	if err != nil {
		return err
	}
	work := filepath.Dir(imageFolder)
	r := containertest.At(filepath.Join(work, containerStore))
	for tag, env := range map[string][]string{tagPlain: nil, tagFails: {"IRONYARD_FAILS=1"}, tagSlow: {fmt.Sprintf("IRONYARD_SLOW=%d", slowSeconds)}} {
		if err := r.Push(ctx, "os", tag, layer, env...); err != nil {
			return err
		}
	}
	settings := filepath.Join(work, "podman")
	if err := os.MkdirAll(filepath.Join(settings, "registries.conf.d"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(settings, "registries.conf.d", "rack.conf"), fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", containerHost()), 0o644); err != nil {
		return err
	}
	built, err := ramdisk.Build(ctx, ramdisk.Options{Agent: filepath.Join("..", "..", "bin", "agent"), KernelPackage: debkernel.Cloud, CacheDir: kernelCache,
		OutDir: filepath.Join(work, "with-podman"), Podman: &ramdisk.Podman{Config: settings}})
	if err != nil {
		return err
	}
	return os.Symlink(built.Initramfs, at)
}

// containerHost is the registry, as machines reach it.
func containerHost() string { return theRack.Address().String() + ":" + containerPort }

// contained serves the registry, and gives a node the ramdisk with podman and an image of it.
func contained(ctx context.Context, t *testing.T, id, tag, account string) {
	t.Helper()
	if err := makeContainers(ctx); err != nil {
		t.Fatal(err)
	}
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	containertest.At(filepath.Join(filepath.Dir(imageFolder), containerStore)).Serve(t, containerHost(), containerAccount, ns.Command)
	for field, value := range map[string]any{
		"/driver_info/deploy_kernel": theRack.ImageURL(ownKernel), "/driver_info/deploy_ramdisk": theRack.ImageURL(containerRamdisk),
		"/properties/root_device":     map[string]any{"name": "/dev/vda"}, // else it has to have 4 GiB
		"/instance_info/image_source": "oci://" + containerHost() + "/os:" + tag, "/instance_info/image_pull_secret": account,
		"/instance_info/bootc_authorized_keys": containerKey,
	} {
		if err := theRack.Operator.Set(ctx, id, field, value); err != nil {
			t.Fatal(err)
		}
	}
}

// containerUp is what the instance says: whose keys it has, and that it has found its config drive.
var containerUp = regexp.MustCompile(regexp.QuoteMeta(partitionimage.Mark) + `(keys .*|drive .*|up)`)

// saysContained waits until an instance has said all that, in this order.
func saysContained(ctx context.Context, t *testing.T, name string, start func()) {
	t.Helper()
	console := consoleFromNow(t, name)
	start()
	for _, want := range []string{"keys " + containerKey, `drive {"hostname":"contained",`, "up"} {
		line, err := console.Wait(ctx, containerUp)
		if err != nil {
			t.Fatalf("no instance on the console: %v", err)
		}
		if !strings.Contains(line, partitionimage.Mark+want) {
			t.Errorf("the instance says %q, want %q", line, want)
		}
	}
}

// withBootc enrols a machine whose deploy interface is bootc, with an image.
func withBootc(ctx context.Context, t *testing.T, name, tag, account string) string {
	t.Helper()
	id := enrolled(ctx, t, name, func(m *operator.Machine) { m.Interfaces = map[string]string{"boot": "ipxe", "deploy": "bootc"} })
	if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	contained(ctx, t, id, tag, account)
	return id
}

// saysNoSecret looks for the registry's password where people read.
func saysNoSecret(ctx context.Context, t *testing.T, id, name, password string) {
	t.Helper()
	for where, said := range map[string]string{"the history": historyOf(ctx, t, id), "the console": lastWords(name)} {
		if strings.Contains(said, password) {
			t.Errorf("%s has the registry's password:\n%s", where, said)
		}
	}
}

// A container that fails in the middle, and one whose registry refuses the account, fail the deploy. The errors name the image and the
// disk, and have the last words. make boot runs it.
func TestContainerFails(t *testing.T) {
	if os.Getenv("IRONYARD_BOOT") == "" {
		t.Skip("takes minutes: make boot runs it")
	}
	for name, c := range map[string]struct {
		tag, account string
		words        []string
	}{
		"in the middle":  {tagFails, containerAccount, []string{"os:fails on disk /dev/vda", "status 1", "it was told to fail", "the disk does not boot"}},
		"a wrong secret": {tagPlain, "tenant:wr0ng-secret", []string{"os:1 on disk /dev/vda", "cannot pull", "unauthorized", "nothing was written"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, 5*time.Minute)
			id := withBootc(ctx, t, "bios-0", c.tag, c.account)
			fails(ctx, t, id, "active", provision.DeployFail, c.words...)
			_, password, _ := strings.Cut(c.account, ":")
			saysNoSecret(ctx, t, id, "bios-0", password)
			undeployed(ctx, t, id)
		})
	}
}

// The rackd that deploys a container is killed in the middle of the installation and stays dead. Its neighbour finds the agent's command
// again: one container is run, and the machine comes up. make boot runs it.
func TestOwnerDiesDuringAContainer(t *testing.T) {
	if os.Getenv("IRONYARD_BOOT") == "" {
		t.Skip("takes minutes: make boot runs it")
	}
	ctx := limit(t, 6*time.Minute)
	const name = "bios-0"
	id := withBootc(ctx, t, name, tagSlow, containerAccount)
	console := consoleFromNow(t, name)
	began := console.Offset()
	saysContained(ctx, t, name, func() {
		if err := theRack.Operator.Ask(ctx, id, "active", map[string]any{"meta_data": map[string]any{"hostname": "contained"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := console.Wait(ctx, regexp.MustCompile(fmt.Sprintf("Waiting for %d s", slowSeconds))); err != nil {
			t.Fatal(err)
		}
		owner := works.wait(ctx, t, "an owner", func(d work.Document) bool { return d.Node == id && d.Open() && d.Owner != "" }).Owner
		dead := theRack.Rackd(owner)
		dead.Kill()
		t.Cleanup(func() { revive(t, dead) })
	})
	if _, err := theRack.Operator.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	dead := events.wait(ctx, t, "takeover", func(e work.Event) bool { return e.Node == id && e.Phase == "takeover" })
	if !strings.Contains(dead.Detail, "deploy.execute_bootc_install") {
		t.Errorf("takeover %q", dead.Detail)
	}
	text, err := os.ReadFile(console.Path())
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{`msg="installing a container"`: 1, "Installing to /dev/vda": 1, "Installation complete": 1} {
		if got := strings.Count(string(text[began:]), what); got != want {
			t.Errorf("the console has %q %d times, want %d", what, got, want)
		}
	}
	saysNoSecret(ctx, t, id, name, "0pen-sesame")
	undeployed(ctx, t, id)
}
