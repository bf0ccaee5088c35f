// Package confine runs a program of an image on the machine that the image was written to, as the installation of a boot loader
// asks for. The image is a tenant's: its program gets the tenant's partitions and nothing else.
//
// It may import nothing of the project. Invariants: The program runs below the image's root, in name spaces of its own: mounts, processes,
// network, IPC and host name. It sees the device files it is given and a few harmless ones. It may read and write any file, and has
// no other capability. Two requests to its device that want another one seem to succeed (granted.go). It has no file, variable or
// argument of the agent's. When its context ends, it ends with all its children. Sources: Linux namespaces(7), capabilities(7),
// mount_namespaces(7), seccomp(2).
package confine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Argument is the first argument by which this program is asked to be the one that is confined.
const Argument = "ironyard-confined"

// Job is what to run, below which root.
type Job struct {
	// Root is where the image's root file system is mounted.
	Root string `json:"root"`
	// Devices are the paths of the device files that the program sees, below /dev. Links are added names of some of them, each
	// with its path below /dev and the path that it leads to.
	Devices []string          `json:"devices"`
	Links   map[string]string `json:"links,omitempty"`
	// Command is the program and its arguments; it is looked up below Root, in the usual folders.
	Command []string `json:"command"`
	// Env are the variables that it gets besides PATH.
	Env []string `json:"env,omitempty"`
}

// folders are where programs of images are.
const folders = "/usr/sbin:/usr/bin:/sbin:/bin"

// maxSaid bounds what is kept of what a program says.
const maxSaid = 4 << 10

// FailedError says that the image's program failed.
type FailedError struct {
	Command string
	Why     error
	Said    string // the end of what it printed
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("the image's %s: %v: %s", e.Command, e.Why, e.Said)
}

// Run runs the job and waits for its end. The error is a *FailedError if the program could not be started or failed.
func Run(ctx context.Context, j Job) error {
	raw, err := json.Marshal(j)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Argument)
	cmd.Stdin = bytes.NewReader(raw)
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Env = []string{}
	cmd.WaitDelay = 5 * time.Second // for a process that has kept the other end open
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return &FailedError{strings.Join(j.Command, " "), err, said.String()}
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if over := t.Len() - maxSaid; over > 0 {
		t.Next(over)
	}
	return n, err
}

// String is what was said, in one line.
func (t *tail) String() string {
	said := strings.Join(strings.FieldsFunc(t.Buffer.String(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if said == "" {
		return "it says nothing"
	}
	return strings.ToValidUTF8(said, "?")
}

// Main is what this program does when Argument is its first one: it confines itself and becomes the image's program. It returns
// only if that fails, with the exit status.
func Main() int {
	err := become()
	fmt.Fprintln(os.Stderr, err)
	return 127
}

// Lookup returns the path, below the image's root, of the first of these programs that the image has; empty if it has none.
func Lookup(root *os.Root, names ...string) string {
	for _, name := range names {
		for dir := range strings.SplitSeq(folders, ":") {
			path := strings.TrimPrefix(dir, "/") + "/" + name
			if st, err := root.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
				return "/" + path
			}
		}
	}
	return ""
}

var errNoCommand = errors.New("there is no command")
