package scenario

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/ops/operator"
)

// byPlaybook is the deploy interface ansible, with a playbook that works in a ramdisk with Python and an SSH server.
const byPlaybook = "ansible"

// Names of a playbook's parts: its key in rackd's folder, and its ramdisk and its image among the images.
const (
	playbookKey     = "key"
	playbookRamdisk = "playbook-ramdisk"
	playbookImage   = "playbook-image.raw"
)

// playbookKeys are the public keys that the ramdisk lets in, and the private one that it shows.
var playbookKeys struct{ authorized, host []byte }

// preparePlaybooks fills a folder for rackd's --ansible-dir.
func preparePlaybooks(folder string) error {
	playbook, err := os.ReadFile(filepath.Join("testdata", "playbook.yaml"))
	if err != nil {
		return err
	}
	public, private, err := newKey()
	if err != nil {
		return err
	}
	playbookKeys.authorized = public
	if _, playbookKeys.host, err = newKey(); err != nil {
		return err
	}
	return errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, playbookKey), private, 0o600), os.WriteFile(filepath.Join(folder, "deploy.yaml"), playbook, 0o644))
}

// newKey makes a pair of keys as files of SSH.
func newKey() (public, private []byte, err error) {
	p, s, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(s, "")
	if err != nil {
		return nil, nil, err
	}
	key, err := ssh.NewPublicKey(p)
	if err != nil {
		return nil, nil, err
	}
	return ssh.MarshalAuthorizedKey(key), pem.EncodeToMemory(block), nil
}

// sshd's settings: one user, by one key.
const sshdConfig = "HostKey /etc/ssh/host_key\nAuthorizedKeysFile /etc/ssh/authorized\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\n" +
	"PasswordAuthentication no\nSubsystem sftp /usr/lib/openssh/sftp-server\n"

// makePlaybookRamdisk makes the rack's own ramdisk with Python and an SSH server in it. The program that starts that is not the archive's
// first: the node's parameters name it.
func makePlaybookRamdisk(ctx context.Context) error {
	at := filepath.Join(imageFolder, playbookRamdisk)
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	own, err := os.ReadFile(filepath.Join(imageFolder, ownRamdisk))
	if err != nil {
		return err
	}
	start, err := os.ReadFile(filepath.Join("testdata", "playbook-start"))
	if err != nil {
		return err
	}
	w, err := newTree(ctx, kernelCache)
	if err != nil {
		return err
	}
	files := map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/bin/false\n", "etc/group": "root:x:0:\nnogroup:x:65534:\n",
		"etc/ssh/sshd_config": sshdConfig, "etc/ssh/authorized": string(playbookKeys.authorized), "etc/ssh/host_key": string(playbookKeys.host)}
	for path, content := range files {
		err = errors.Join(err, w.AddFile(path, 0o600, []byte(content)))
	}
	if err := errors.Join(err, w.AddFile("start", 0o755, start), w.programs(ctx, "/usr/sbin/sshd", "/usr/lib/openssh/sftp-server"), w.python(ctx)); err != nil {
		return err
	}
	packed, err := w.packed()
	// The kernel unpacks archives one after another.
	return errors.Join(err, os.Symlink(images.Raw.Path, filepath.Join(imageFolder, playbookImage)), os.WriteFile(at, append(own, packed...), 0o644))
}

// forPlaybooks gives a node the ramdisk in which its playbook works, and its image.
func forPlaybooks(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	if err := makePlaybookRamdisk(ctx); err != nil {
		t.Fatal(err)
	}
	o := theRack.Operator
	for field, value := range map[string]string{"ansible_key_file": playbookKey, "ansible_username": "root", "ansible_python_interpreter": "/usr/bin/python3",
		"deploy_kernel": theRack.ImageURL(ownKernel), "deploy_ramdisk": theRack.ImageURL(playbookRamdisk), "kernel_append_params": "rdinit=/start"} {
		if err := o.Set(ctx, id, "/driver_info/"+field, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.SetImage(ctx, id, operator.Image{URL: theRack.ImageURL(playbookImage), SHA256: images.Raw.SHA256, DiskFormat: "raw"}); err != nil {
		t.Fatal(err)
	}
}

// saysPlayed looks that the history has the playbook's tasks, and no write of the agent's.
func saysPlayed(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	saysOf(t, historyOf(ctx, t, id), map[string]bool{"playbook: begins at ": true, "task: fetch the image": true, "task: write the image": true, "playbook ended: well": true,
		"write: ": false})
}
