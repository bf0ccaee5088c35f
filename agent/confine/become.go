package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// harmless are device files that programs expect.
var harmless = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// hidden is a file of the kernel's that is the agent's: it holds the boot's id, and what the operator gives to all machines.
const hidden = "proc/cmdline"

// kept are the capabilities that the program has: those that concern files. Without the others it mounts nothing, makes no
// device file, loads no module, and leaves no root folder. CAP_DAC_READ_SEARCH is none of them: by it open_by_handle_at(2) opens
// files that no path leads to, and CAP_DAC_OVERRIDE reads what there is.
var kept = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}

// become confines this process, which is the first of its name spaces, and executes the job's command.
func become() error {
	runtime.LockOSThread()
	var j Job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	if len(j.Command) == 0 {
		return errNoCommand
	}
	if os.Getpid() != 1 {
		return errors.New("this is not the first process of a name space of its own")
	}
	// Where memory ends, the kernel ends this first (proc_pid_oom_score_adj(5)), with all that comes of it.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return fmt.Errorf("putting the program before the agent where memory ends: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("parting from the mounts: %w", err)
	}
	for _, m := range []struct {
		kind, at, data string
		flags          uintptr
	}{
		// Files of /proc and /sys that change the kernel belong to root, and ask for no capability.
		{"proc", "proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY},
		{"sysfs", "sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY},
		{"tmpfs", "run", "mode=0755,size=64M", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "tmp", "mode=1777,size=256M", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "dev", "mode=0755,size=1M", unix.MS_NOSUID | unix.MS_NOEXEC},
	} {
		at, err := below(j.Root, m.at)
		if err != nil {
			return err
		}
		if err := unix.Mount(m.kind, at, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting /%s of the image: %w", m.at, err)
		}
	}
	if err := devices(j); err != nil {
		return err
	}
	if err := unix.Mount(filepath.Join(j.Root, "dev/null"), filepath.Join(j.Root, hidden), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("hiding /%s: %w", hidden, err)
	}
	if err := unix.Chroot(j.Root); err != nil {
		return fmt.Errorf("going below the image's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("opening /dev/null: %w", err)
	}
	if err := unix.Dup2(null, 0); err != nil {
		return err
	}
	if err := weaken(); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	if err := grant(); err != nil {
		return fmt.Errorf("having requests to the device succeed: %w", err)
	}
	env := append([]string{"PATH=" + folders, "LC_ALL=C", "HOME=/"}, j.Env...)
	err = unix.Exec(j.Command[0], j.Command, env)
	return fmt.Errorf("executing %s: %w", j.Command[0], err)
}

// below makes a folder of the image that is to be mounted over. A link in its place would lead out of the image.
func below(root, name string) (string, error) {
	at := filepath.Join(root, name)
	st, err := os.Lstat(at)
	if errors.Is(err, os.ErrNotExist) {
		return at, os.Mkdir(at, 0o755)
	}
	if err != nil {
		return "", err
	}
	if !st.IsDir() {
		return "", fmt.Errorf("/%s of the image is no folder", name)
	}
	return at, nil
}

// devices makes the device files in the image's /dev, which is empty.
func devices(j Job) error {
	dev := filepath.Join(j.Root, "dev")
	for _, path := range append(harmless, j.Devices...) {
		name, ours := strings.CutPrefix(path, "/dev/")
		if !ours || !filepath.IsLocal(name) {
			return fmt.Errorf("%s is no device file", path)
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return fmt.Errorf("looking at %s: %w", path, err)
		}
		at := filepath.Join(dev, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		mode := st.Mode & (unix.S_IFMT | 0o666)
		if err := unix.Mknod(at, mode, int(st.Rdev)); err != nil {
			return fmt.Errorf("making %s: %w", path, err)
		}
	}
	links := map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"}
	for path, to := range j.Links {
		links[path] = to
	}
	for path, to := range links {
		name, ours := strings.CutPrefix(path, "/dev/")
		if !ours || !filepath.IsLocal(name) {
			return fmt.Errorf("%s is no device file", path)
		}
		at := filepath.Join(dev, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(to, at)); err != nil {
			return err
		}
	}
	return nil
}

// lastCapability bounds the numbers of capabilities that are tried: kernels know 41 today.
const lastCapability = 63

// weaken leaves this thread, and what it executes, the kept capabilities.
func weaken() error {
	var keep uint64
	for _, c := range kept {
		keep |= 1 << c
	}
	for c := uintptr(0); c <= lastCapability; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(keep), uint32(keep>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
