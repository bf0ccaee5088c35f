package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// order is what the first process of the name spaces is asked to do.
type order struct {
	Root    string            `json:"root"`
	Config  string            `json:"config"`
	At      string            `json:"at"` // an empty folder, where its own root comes up
	Image   string            `json:"image"`
	Account bool              `json:"account"` // accountFD has one
	Files   map[string][]byte `json:"files"`
	Command []string          `json:"command"`
	Resolve []byte            `json:"resolve"` // the agent's resolv.conf
}

// Main is what this program does when Argument is its first one. It makes a root of its own, and has podman pull the image and run it
// there.
func Main() int {
	runtime.LockOSThread()
	unix.CloseOnExec(accountFD)
	unix.CloseOnExec(toldFD)
	last := first()
	if err := json.NewEncoder(os.NewFile(toldFD, "told")).Encode(last); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if last.Reason != "" || last.Status != 0 {
		return 1
	}
	return 0
}

// first does all the work and says how it ended.
func first() told {
	failed := func(s Stage, err error) told { return told{Stage: s, Reason: err.Error()} }
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return failed(Begin, fmt.Errorf("reading the order: %w", err))
	}
	if os.Getpid() != 1 {
		return failed(Begin, errors.New("this is not the first process of a name space of its own"))
	}
	if err := o.settle(); err != nil {
		return failed(Begin, err)
	}
	account := os.NewFile(accountFD, "account")
	status, err := start(account, o.pull())
	if err != nil || status != 0 {
		return told{Stage: Pull, Status: status, Reason: text(err)}
	}
	if err := forget(account); err != nil {
		return failed(Pull, err)
	}
	status, err = start(nil, o.run())
	return told{Stage: Run, Status: status, Reason: text(err)}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// options are those of each call of podman. Nothing is left to files that its user may have, and there is no systemd.
var options = []string{"podman", "--cgroup-manager=cgroupfs", "--events-backend=none", "--storage-driver=overlay"}

// pull are podman's arguments for the pull.
func (o order) pull() []string {
	args := append(options[:len(options):len(options)], "pull")
	if o.Account {
		args = append(args, fmt.Sprintf("--authfile=/proc/self/fd/%d", accountFD))
	}
	return append(args, o.Image)
}

// run are those for the container: ironic-python-agent's, and a network that needs no bridge. Bootc asks for all rights, for the processes
// of its host, and for its storage of images.
func (o order) run() []string {
	args := append(options[:len(options):len(options)], "run", "--rm", "--privileged", "--pid=host", "--network=host", "--pids-limit=-1", "--log-driver=none", "--pull=never",
		"-v", "/var/lib/containers:/var/lib/containers", "-v", "/dev:/dev")
	if len(o.Files) > 0 {
		args = append(args, "-v", "/tmp:/tmp")
	}
	return append(append(args, o.Image), o.Command...)
}

// start runs podman to its end and returns its status. A file goes along if it is not nil, as accountFD.
func start(file *os.File, args []string) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	files := []*os.File{null, os.Stdout, os.Stderr}
	if file != nil {
		files = append(files, file)
	}
	p, err := os.StartProcess("/"+podman, args, &os.ProcAttr{Dir: "/", Files: files,
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "TMPDIR=/var/tmp"}})
	if err != nil {
		return 0, err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil) // processes whose parent has ended come to this one
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for podman: %w", err)
		case pid == p.Pid && status.Signaled():
			return 0, fmt.Errorf("podman died of signal %v", status.Signal())
		case pid == p.Pid && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// forget ends what the pull may have left, and closes the account's file, of which this process has the last one.
func forget(account *os.File) error {
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending what the pull has left: %w", err)
	}
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for the end of what the pull has left: %w", err)
		}
	}
	return account.Close()
}

// shown are the folders of Root that are podman's, read-only in this name space.
var shown = []string{"usr", "bin", "sbin", "lib", "lib64", "etc/ssl"}

// empty are folders that podman, and bootc in the container, look for: bootc has those of its host that it lists.
var empty = []string{"dev", "proc", "root", "run", "run/udev", "sys", "tmp", "var/lib/containers", "var/tmp"}

// settle gives this process a root in memory, with podman in it and none of the agent's files. A ramdisk's own root cannot be left by
// pivot_root, which podman's runtime calls. A file system that is mounted over it can.
func (o order) settle() error {
	// Where memory ends, the kernel ends what is started here first, and not the agent.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return fmt.Errorf("putting podman before the agent where memory ends: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("parting from the mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", o.At, "tmpfs", 0, "mode=0755,size=90%"); err != nil {
		return fmt.Errorf("mounting a root in memory: %w", err)
	}
	in := func(name string) string { return filepath.Join(o.At, name) }
	for _, name := range empty {
		if err := os.MkdirAll(in(name), 0o755); err != nil {
			return err
		}
	}
	for _, name := range shown {
		if err := show(filepath.Join(o.Root, name), in(name)); err != nil {
			return fmt.Errorf("showing /%s to podman: %w", name, err)
		}
	}
	if err := show(o.Config, in(settingsFolder)); err != nil {
		return fmt.Errorf("showing podman its settings: %w", err)
	}
	files := map[string][]byte{"etc/resolv.conf": o.Resolve, "etc/hosts": []byte("127.0.0.1 localhost\n::1 localhost\n"), "etc/passwd": []byte("root:x:0:0::/root:/bin/sh\n"), "etc/group": []byte("root:x:0:\n")}
	for name, content := range o.Files {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is no name of a file", name)
		}
		files["tmp/"+name] = content
	}
	for name, content := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(in(name)), 0o755), os.WriteFile(in(name), content, 0o644)); err != nil {
			return err
		}
	}
	if err := o.devices(); err != nil {
		return err
	}
	// The agent's files in memory go from this name space. What is mounted at At stays.
	if err := unix.Unmount("/run", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("leaving /run: %w", err)
	}
	if err := os.Chdir(o.At); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root in memory to /: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("going below the root in memory: %w", err)
	}
	return os.Chdir("/")
}

// show makes a folder or a link of Root visible at another place. What is not there is left out.
func show(from, to string) error {
	st, err := os.Lstat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode()&os.ModeSymlink != 0 {
		leads, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(leads, to)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// devices mounts the kernel's file systems below the root in memory.
func (o order) devices() error {
	if err := unix.Mount("/dev", filepath.Join(o.At, "dev"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("showing /dev: %w", err)
	}
	shared := filepath.Join(o.At, "dev/shm") // podman's locks; no program of the agent's has any
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", shared, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mounting /dev/shm: %w", err)
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		kind, at string
		optional bool // not every machine was booted by UEFI
	}{
		{"proc", "proc", false}, {"sysfs", "sys", false}, {"cgroup2", "sys/fs/cgroup", false}, {"efivarfs", "sys/firmware/efi/efivars", true},
	} {
		at := filepath.Join(o.At, m.at)
		if _, err := os.Stat(at); m.optional && err != nil {
			continue
		}
		if err := unix.Mount(m.kind, at, m.kind, plain, ""); err != nil && !m.optional {
			return fmt.Errorf("mounting %s: %w", m.kind, err)
		}
	}
	return nil
}
