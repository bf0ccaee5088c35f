package pythonagent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/ops/initramfs"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Of the folder with playbooks, and of the ramdisk in which they work, among the images.
const (
	ansibleKey     = "key"
	ansibleKernel  = "ansible-kernel"
	ansibleRamdisk = "ansible-initramfs"
)

// playbooks fills a folder for rackd's --ansible-dir, and makes a ramdisk among the images that lets its key in.
func playbooks(folder, ramdisk, images string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	authorized, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := initramfs.NewWriter(&archive)
	if err := errors.Join(w.AddFile("etc/ssh/ansible_keys", 0o644, ssh.MarshalAuthorizedKey(authorized)), w.Close()); err != nil {
		return err
	}
	initial, err := os.ReadFile(filepath.Join(ramdisk, "initramfs"))
	if err != nil {
		return err
	}
	// The kernel unpacks archives one after another. One that is not compressed begins at a multiple of four.
	initial = append(initial, make([]byte, (4-len(initial)%4)%4)...)
	playbook, err := os.ReadFile(filepath.Join("testdata", "deploy.yaml"))
	if err != nil {
		return err
	}
	return errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, ansibleKey), pem.EncodeToMemory(block), 0o600),
		os.WriteFile(filepath.Join(folder, "deploy.yaml"), playbook, 0o644), os.WriteFile(filepath.Join(images, ansibleRamdisk), append(initial, archive.Bytes()...), 0o644),
		os.Symlink(filepath.Join(ramdisk, "kernel"), filepath.Join(images, ansibleKernel)))
}

// tasks are those of the playbook, as the history has them.
var tasks = []string{"task: fetch the image", "task: write the image", "task: make room for the config drive", "task: wait for its partition",
	"task: bring the config drive", "task: write the config drive"}

// A playbook deploys a machine: it works by SSH in the machine's ramdisk, and its tasks are in the node's history.
func TestPlaybookDeploys(t *testing.T) {
	for _, name := range []string{"bios-0", "uefi-0"} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, 40*time.Minute)
			id := forPlaybooks(ctx, t, name)
			began := time.Now()
			deployed(ctx, t, id, name)
			t.Logf("%.0f s from the request to the instance's words", time.Since(began).Seconds())
			told(ctx, t, id, slices.Concat([]string{"playbook: begins at "}, tasks, []string{"playbook ended: well"})...)
			to(ctx, t, id, "deleted", provision.Available)
		})
	}
}

// A rackd is killed while its playbook writes the image. When it is back the machine boots its ramdisk again, and the playbook begins
// once more.
func TestPlaybookBeginsAgain(t *testing.T) {
	const name = "bios-0"
	ctx := limit(t, 40*time.Minute)
	id := forPlaybooks(ctx, t, name)
	await := deploying(ctx, t, id, name)
	for said := ""; !strings.Contains(said, tasks[1]); said = historyOf(ctx, t, id) {
		select {
		case <-ctx.Done():
			t.Fatalf("%v: the playbook does not begin:\n%s", context.Cause(ctx), said)
		case <-time.After(200 * time.Millisecond):
		}
	}
	d := theRack.Rackd("rackd-1")
	d.Kill()
	if err := d.Start(ctx); err != nil {
		t.Fatal(err)
	}
	await()
	told(ctx, t, id, slices.Concat([]string{"attempt 1"}, tasks[:2], []string{"playbook lost", "attempt 2"}, tasks, []string{"playbook ended: well"})...)
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "ironyard-ansible-*")); err != nil || len(left) > 0 {
		t.Errorf("files of playbooks are left: %v, %v", left, err)
	}
	to(ctx, t, id, "deleted", provision.Available)
}

// forPlaybooks enrols a machine that a playbook is to deploy, with its ramdisk and its image.
func forPlaybooks(ctx context.Context, t *testing.T, name string) (id string) {
	t.Helper()
	id = enrolled(ctx, t, name)
	for path, value := range map[string]any{"/automated_clean": false, "/deploy_interface": "ansible", "/driver_info/ansible_key_file": ansibleKey,
		"/driver_info/deploy_kernel": theRack.ImageURL(ansibleKernel), "/driver_info/deploy_ramdisk": theRack.ImageURL(ansibleRamdisk)} {
		if err := theRack.Operator.Set(ctx, id, path, value); err != nil {
			t.Fatal(err)
		}
	}
	to(ctx, t, id, "manage", provision.Manageable)
	to(ctx, t, id, "provide", provision.Available)
	if err := theRack.Operator.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	return id
}

// told checks that the history has these words, in this order.
func told(ctx context.Context, t *testing.T, id string, words ...string) {
	t.Helper()
	said := historyOf(ctx, t, id)
	left := said
	for _, want := range words {
		_, after, ok := strings.Cut(left, want)
		if !ok {
			t.Errorf("the history lacks %q after what is before it:\n%s", want, said)
			return
		}
		left = after
	}
}

// historyOf is what the history of a node says, a line an event.
func historyOf(ctx context.Context, t *testing.T, id string) string {
	t.Helper()
	text, err := theRack.Operator.HistoryText(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
