package deploy

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/container"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/agent/esp/esptest"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// installs is what a container does to a disk. What podman does, agent/container's tests show with podman.
type installs func(disk string) error

var errNoJob = errors.New("no job")

func (i installs) Run(_ context.Context, j container.Job) error {
	if len(j.Command) == 0 {
		return errNoJob
	}
	return i(j.Command[len(j.Command)-1])
}

// contained is a deployer for a sparse disk of two GiB with what was there before at both of its ends.
func contained(t *testing.T, run installs) (*Deployer, string) {
	t.Helper()
	const large = 2 << 30
	d, _, path := fixture(t, nil)
	if err := os.Truncate(path, large); err != nil {
		t.Fatal(err)
	}
	d.Machine = both{{Name: path, Size: large, Serial: "ROOT"}}
	d.Containers = run
	return d, path
}

func root() hints.Rules {
	h, err := hints.Parse(map[string]any{"serial": "ROOT"})
	if err != nil {
		panic(err)
	}
	return hints.Rules{Root: h}
}

// What a container has written is judged by what the firmware would find. A disk that does not boot is left so that nothing boots from it.
func TestWhatAContainerLeavesIsJudged(t *testing.T) {
	const table = "label: gpt\nsize=1MiB, type=21686148-6449-6E6F-744E-656564454649\nsize=5MiB, type=U\nsize=16MiB\n"
	script := func(text string) installs {
		return func(disk string) error {
			cmd := exec.Command("sfdisk", "--quiet", "--wipe", "always", disk)
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return errors.New(string(out))
			}
			return nil
		}
	}
	code := func(disk string) error {
		f, err := os.OpenFile(disk, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{0xeb, 0x63}, 0)
		return errors.Join(err, f.Close())
	}
	failed := &container.FailedError{Image: "r.example/os:1", During: container.Run, Why: errors.New("podman ended with status 1"), Said: "the disk is bad"}
	for name, c := range map[string]struct {
		run  installs
		efi  bool
		want string // part of the error; empty: it succeeds
	}{
		"by BIOS": {func(disk string) error { return errors.Join(script(table)(disk), code(disk)) }, false, ""},
		"by UEFI": {func(disk string) error {
			if err := script(table)(disk); err != nil {
				return err
			}
			b := make([]byte, 8<<20)
			esptest.Fill(t, b, 2<<20, 5<<20)
			f, err := os.OpenFile(disk, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(b[2<<20:7<<20], 2<<20)
			return errors.Join(err, f.Close())
		}, true, ""},
		"nothing":                 {func(string) error { return nil }, false, "no partition table"},
		"no boot code":            {script(table), false, "no boot code in its first sector"},
		"no EFI system partition": {script("label: gpt\nsize=16MiB\n"), true, "no EFI system partition"},
		"an ESP without a loader": {script(table), true, "boot loader"},
		"a container that fails":  {func(string) error { return failed }, false, "the disk is bad"},
		"an image without a bootc": {func(string) error {
			return &container.FailedError{During: container.Run, Why: errors.New("podman ended with status 127"), Said: "crun: executable file `bootc` not found in $PATH"}
		}, false, "the image has no program bootc"},
	} {
		t.Run(name, func(t *testing.T) {
			d, path := contained(t, c.run)
			if !c.efi {
				d.EFIVars = filepath.Join(d.EFIVars, "none")
			} else if err := os.WriteFile(filepath.Join(d.EFIVars, "BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c"), []byte{7, 0, 0, 0}, 0o600); err != nil {
				t.Fatal(err)
			}
			said, err := d.InstallContainer(t.Context(), root(), Container{Source: "oci://r.example/os:1", ConfigDrive: gzip64(t, bytes.Repeat([]byte("drive"), 1000))}, ignore)
			ends := read(t, path)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(said, "Container image (oci://r.example/os:1) written to device "+path) || c.efi != strings.Contains(said, "starts") {
					t.Errorf("it says %q", said)
				}
				out, err := exec.Command("sfdisk", "--json", path).Output()
				if err != nil || !bytes.Contains(out, []byte(`"name": "config-2"`)) {
					t.Errorf("no partition for the config drive: %v: %s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "oci://r.example/os:1 on disk "+path) || !strings.Contains(err.Error(), "the disk does not boot") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if len(bytes.Trim(ends[:1<<20], "\x00")) != 0 || len(bytes.Trim(ends[len(ends)-1<<20:], "\x00")) != 0 {
				t.Error("something is left at the disk's ends")
			}
		})
	}
}

// read returns the first MiB and the last one of a disk.
func read(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2<<20)
	_, err = f.ReadAt(b[:1<<20], 0)
	_, err2 := f.ReadAt(b[1<<20:], st.Size()-1<<20)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return b
}

// What cannot work is refused before a container is run, and what fails before the container is run leaves the disk as it was.
func TestNoContainerIsRun(t *testing.T) {
	for name, c := range map[string]struct {
		of   Container
		run  error
		want string
	}{
		"another scheme":      {Container{Source: "docker://r.example/os:1"}, nil, "image_source"},
		"an option":           {Container{Source: "oci://-v=x/os:1"}, nil, "image_source"},
		"a user":              {Container{Source: "oci://u:s3cret@r.example/os:1"}, nil, "image_source"},
		"a name alone":        {Container{Source: "oci://r.example"}, nil, "image_source"},
		"a secret in plain":   {Container{Source: "oci://r.example/os:1", PullSecret: "u:s3cret"}, nil, "oci_pull_secret"},
		"a secret of one":     {Container{Source: "oci://r.example/os:1", PullSecret: base64.StdEncoding.EncodeToString([]byte("u:s3cret"))}, nil, "oci_pull_secret"},
		"a bad config drive":  {Container{Source: "oci://r.example/os:1", ConfigDrive: "!!!"}, nil, "config drive"},
		"UEFI that is not":    {Container{Source: "oci://r.example/os:1", UEFI: true}, nil, "boot mode uefi"},
		"a pull that failed":  {Container{Source: "oci://r.example/os:1"}, &container.FailedError{Image: "r.example/os:1", During: container.Pull, Why: errors.New("podman ended with status 125"), Said: "unauthorized"}, "nothing was written"},
		"podman is not there": {Container{Source: "oci://r.example/os:1"}, &container.FailedError{Image: "r.example/os:1", During: container.Begin, Why: os.ErrNotExist}, "nothing was written"},
	} {
		ran := 0
		d, path := contained(t, func(string) error { ran++; return c.run })
		d.EFIVars = filepath.Join(d.EFIVars, "none")
		was := read(t, path)
		_, err := d.InstallContainer(t.Context(), root(), c.of, ignore)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if now := read(t, path); !bytes.Equal(now, was) {
			t.Errorf("%s: the disk was touched", name)
		}
		if (ran > 0) != (c.run != nil) {
			t.Errorf("%s: %d containers were run", name, ran)
		}
	}
}

// Podman is told what ironic-python-agent tells it, and the secret is none of the command's words.
func TestBootcsWords(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("u:s3cret"))))
	j, err := Container{Source: "oci://r.example:5000/a/os@sha256:" + strings.Repeat("ab", 32), PullSecret: secret, AuthorizedKeys: "ssh-ed25519 AAAA", TPM2LUKS: true, Place: efiboot.First}.job()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bootc", "install", "to-disk", "--wipe", "--skip-fetch-check", "--disable-selinux", "--block-setup=tpm2-luks", "--root-ssh-authorized-keys=/tmp/" + keysFile}
	if !slices.Equal(j.Command, want) || string(j.Files[keysFile]) != "ssh-ed25519 AAAA" || j.Image != "r.example:5000/a/os@sha256:"+strings.Repeat("ab", 32) ||
		j.Account.Host != "r.example:5000" || j.Account.Basic != base64.StdEncoding.EncodeToString([]byte("u:s3cret")) {
		t.Errorf("%+v of %+v", j, j.Account)
	}
}

// An agent whose ramdisk has no podman runs none.
func TestNoPodman(t *testing.T) {
	d, _ := contained(t, nil)
	d.Containers = nil
	var wrong *ParamError
	if _, err := d.InstallContainer(t.Context(), root(), Container{Source: "oci://r.example/os:1"}, func(agentapi.Progress) {}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "--podman") {
		t.Errorf("%v", err)
	}
}
