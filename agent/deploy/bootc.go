package deploy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/configdrive"
	"github.com/ironyard/ironyard/agent/container"
	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// Containers runs a container to its end (agent/container).
type Containers interface {
	Run(ctx context.Context, j container.Job) error
}

// Mappings removes the mappings of the kernel that stand on a disk alone (agent/mapping).
type Mappings interface {
	Clear(disk string) (removed []string, err error)
}

// clear removes mappings that a container has left on a disk: bootc opens an encrypted root file system by one, and closes it at its good
// end alone. Until then the disk counts as in use.
func (d *Deployer) clear(target agentapi.Disk) error {
	if d.Mappings == nil {
		return nil
	}
	removed, err := d.Mappings.Clear(target.Name)
	if len(removed) > 0 {
		d.Log.Info("mappings removed that were left on the disk", "disk", target.Name, "mappings", removed)
	}
	return err
}

// Container is an image of a registry that installs itself by bootc.
type Container struct {
	// Source is oci://HOST[:PORT]/NAME, with a tag or a digest.
	Source string
	// ConfigDrive is base64 of a gzipped image, and PullSecret base64 of base64 of user:password; each may be empty.
	ConfigDrive, PullSecret string
	// AuthorizedKeys let their owners in as root; empty: none.
	AuthorizedKeys string
	// TPM2LUKS encrypts the root file system, with a key that the machine's TPM keeps.
	TPM2LUKS bool
	// Place is where the boot entry stands, and UEFI says that the node asks for one.
	Place efiboot.Place
	UEFI  bool
}

// besideRoot is what the root partition leaves of the disk, as with ironic-python-agent: for the partitions that boot the machine, and
// for the config drive.
const besideRoot = 768 * mib

// keysFile is where bootc finds the keys.
const keysFile = "ironyard-authorized-keys"

// reference is what may stand for an image on podman's command line.
var reference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:\[\]_-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$`)

// InstallError says that a container did not make a disk an instance's.
type InstallError struct {
	Source, Disk string
	Untouched    bool
	Err          error
}

func (e *InstallError) Error() string {
	state := "the disk does not boot"
	if e.Untouched {
		state = "nothing was written"
	}
	return fmt.Sprintf("installing %s on disk %s: %v (%s)", e.Source, e.Disk, e.Err, state)
}

func (e *InstallError) Unwrap() error { return e.Err }

// FaultType names the error as ironic-python-agent does.
func (e *InstallError) FaultType() string {
	if e.Untouched {
		return "ImageDownloadError"
	}
	return "ImageWriteError"
}

// InstallContainer has podman pull a container and run its bootc, which writes the root disk. Then it looks whether the machine can boot
// from that, adds the config drive and makes the boot entry. It returns what was done, for people. A disk on which an installation has
// begun and failed does not boot.
func (d *Deployer) InstallContainer(ctx context.Context, rules hints.Rules, c Container, report func(agentapi.Progress)) (string, error) {
	if d.Containers == nil {
		return "", &ParamError{"this ramdisk has no podman, so it runs no containers: build one with ironyard ramdisk build --podman"}
	}
	job, err := c.job()
	if err != nil {
		return "", err
	}
	var drive []byte
	if c.ConfigDrive != "" {
		if drive, err = configdrive.Decode(c.ConfigDrive); err != nil {
			return "", err
		}
	}
	if c.UEFI && !d.uefi() {
		return d.noBootEntry(true)
	}
	decision, err := d.decide(ctx, rules, true)
	if err != nil {
		return "", err
	}
	target := decision.Image
	if target.Size <= besideRoot {
		return "", &ParamError{fmt.Sprintf("disk %s has %d MiB. bootc is told to leave %d MiB beside the root partition: take a larger disk", target.Name, target.Size/mib, int64(besideRoot)/mib)}
	}
	held, err := d.hold(ctx, target)
	if err != nil {
		return "", err
	}
	defer held.Close()
	cleared := d.clear(target)                    // of a container that an agent before has not ended
	if err := d.unused(ctx, target); err != nil { // from here on the container opens it by its name
		return "", errors.Join(err, cleared)
	}
	d.root, d.partitions, d.exported = agentapi.Disk{}, nil, exported{} // what a rackd has written is no longer what it was
	job.Command = append(job.Command, fmt.Sprintf("--root-size=%dM", (target.Size-besideRoot)/mib), target.Name)
	if d.ContainerModules != nil {
		d.ContainerModules()
	}
	d.Log.Info("installing a container", "image", job.Image, "disk", target.Name, "disk_bytes", target.Size, "model", target.Model, "serial", target.Serial)
	if err := d.runWatched(ctx, job, target, report); err != nil {
		failed, is := errors.AsType[*container.FailedError](err)
		if is && failed.During == container.Run && strings.Contains(failed.Said, "executable file `bootc` not found") {
			err = fmt.Errorf("the image has no program bootc, so it cannot install itself: %w", err)
		}
		if is && failed.During != container.Run {
			return "", &InstallError{c.Source, target.Name, true, err}
		}
		return "", &InstallError{c.Source, target.Name, false, errors.Join(err, d.unbootable(ctx, target))}
	}
	entry, err := d.finishContainer(ctx, target, drive, c)
	if err != nil {
		return "", &InstallError{c.Source, target.Name, false, err}
	}
	said := fmt.Sprintf("Container image (%s) written to device %s; %s", c.Source, target.Name, entry)
	d.Log.Info("container installed", "image", job.Image, "disk", target.Name)
	return said, nil
}

// job is what podman is to do, but for the disk. The arguments are ironic-python-agent's. The ramdisk has no SELinux.
func (c Container) job() (j container.Job, err error) {
	u, err := url.Parse(c.Source)
	if err != nil || u.Scheme != "oci" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !reference.MatchString(u.Host+u.Path) {
		return j, &ParamError{"image_source is no address of a container: give oci://HOST[:PORT]/NAME:TAG or oci://HOST[:PORT]/NAME@sha256:…"}
	}
	j.Image = u.Host + u.Path
	if c.PullSecret != "" {
		basic, err := base64.StdEncoding.DecodeString(c.PullSecret)
		if err == nil {
			var plain []byte
			if plain, err = base64.StdEncoding.DecodeString(string(basic)); err == nil && !strings.Contains(string(plain), ":") {
				err = errors.New("no colon")
			}
		}
		if err != nil { // whose text may hold a part of the secret
			return j, &ParamError{"oci_pull_secret is not base64 of base64 of user:password"}
		}
		j.Account = &container.Account{Host: u.Host, Basic: string(basic)}
	}
	j.Command = []string{"bootc", "install", "to-disk", "--wipe", "--skip-fetch-check", "--disable-selinux"}
	if c.TPM2LUKS {
		j.Command = append(j.Command, "--block-setup=tpm2-luks")
	}
	if c.AuthorizedKeys != "" {
		j.Files = map[string][]byte{keysFile: []byte(c.AuthorizedKeys)}
		j.Command = append(j.Command, "--root-ssh-authorized-keys=/tmp/"+keysFile)
	}
	return j, nil
}

// watch is how often the progress of a container is looked at.
const watch = time.Second

// runWatched runs a container, and reports meanwhile how many bytes podman has got, and then also how many the kernel has written to the
// disk. A rackd takes a progress that stands for a command which hangs, and a pull may take longer than it waits for one.
func (d *Deployer) runWatched(ctx context.Context, j container.Job, target agentapi.Disk, report func(agentapi.Progress)) error {
	began, before := time.Now(), writtenTo(target.Name)
	ended, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	var came atomic.Int64
	j.Came = came.Store
	watching.Go(func() {
		tick := time.NewTicker(watch)
		defer tick.Stop()
		var pulled int64
		for {
			select {
			case <-ended.Done():
				return
			case <-tick.C:
				written := writtenTo(target.Name) - before
				if written == 0 { // from then on the container runs, and what it has in memory is no sign that it goes on
					pulled = came.Load()
				}
				report(progress(pulled+written, 0, time.Since(began)))
			}
		}
	})
	err := d.Containers.Run(ctx, j)
	stop()
	watching.Wait()
	return err
}

// writtenTo is how many bytes the kernel has written to a disk since it knows it; 0 where it does not tell.
func writtenTo(name string) int64 {
	stat, err := os.ReadFile(filepath.Join("/sys/class/block", filepath.Base(name), "stat"))
	if err != nil {
		return 0
	}
	const sectorsWritten, sector = 6, 512 // Documentation/block/stat.rst
	fields := strings.Fields(string(stat))
	if len(fields) <= sectorsWritten {
		return 0
	}
	n, err := strconv.ParseInt(fields[sectorsWritten], 10, 64)
	if err != nil {
		return 0
	}
	return n * sector
}

// How long the kernel may take to unmount what an ended container had mounted, and how often it is asked.
const (
	releaseBound = 30 * time.Second
	releasePause = 200 * time.Millisecond
)

// reopened opens a disk that a container has written.
func (d *Deployer) reopened(ctx context.Context, target agentapi.Disk) (*disk.Disk, error) {
	for deadline := time.Now().Add(releaseBound); ; {
		out, err := d.open(ctx, target)
		if err == nil {
			// The container wrote by the partitions' own files, of which the kernel keeps other copies.
			if err := out.Refresh(); err != nil {
				return nil, errors.Join(err, out.Close())
			}
			return out, nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
		cleared := d.clear(target) // refused while the kernel has not unmounted what is on it
		if time.Now().After(deadline) {
			return nil, errors.Join(err, cleared)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(releasePause):
		}
	}
}

// unbootable wipes the ends of a disk on which an installation has failed. It does so also where the command was cancelled.
func (d *Deployer) unbootable(ctx context.Context, target agentapi.Disk) error {
	out, err := d.reopened(context.WithoutCancel(ctx), target)
	if err != nil {
		return fmt.Errorf("nor can it be wiped, so it may hold half an instance: %w", err)
	}
	defer out.Close()
	return errors.Join(out.WipeEnds(), out.Flush(), d.reread(out))
}

// finishContainer makes what bootc has written an instance's disk. It fails where the machine would find nothing there to boot.
func (d *Deployer) finishContainer(ctx context.Context, target agentapi.Disk, drive []byte, c Container) (entry string, err error) {
	out, err := d.reopened(ctx, target)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.unbootable(ctx, target))
		}
	}()
	err = startable(out, d.uefi())
	if err == nil {
		_, err = d.finish(out, drive, 0)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return "", err
	}
	if d.uefi() {
		entry, err = d.bootEntry(target.Name, c.Place, c.UEFI)
	} else {
		entry, err = d.noBootEntry(false)
	}
	if err == nil {
		d.root = target
	}
	return entry, err
}

// codeBytes is how many bytes of the first sector a BIOS starts (UEFI specification 2.10, section 5.2.1).
const codeBytes = 440

// startable looks for what a machine's firmware starts from a disk, as far as it can be told before a boot entry is made.
func startable(out *disk.Disk, uefi bool) error {
	table, err := partition.Read(out)
	if errors.Is(err, partition.ErrNone) {
		return &image.FormatError{Image: "just installed", Reason: "its bootc has ended well, and has made no partition table"}
	}
	if err != nil || uefi { // bootEntry looks for the EFI system partition and its loader
		return err
	}
	first := make([]byte, codeBytes)
	if _, err := out.ReadAt(first, 0); err != nil {
		return err
	}
	if strings.Trim(string(first), "\x00") == "" {
		return &image.FormatError{Image: "just installed", Reason: fmt.Sprintf("it has %d partitions and no boot code in its first sector, and the machine was booted by BIOS: use boot mode uefi or an image that boots by BIOS",
			len(table.Partitions()))}
	}
	return nil
}
