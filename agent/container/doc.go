// Package container runs an image of a registry as a container on the machine that the image installs itself on. Podman does that: what
// such an image starts (bootc) looks for podman's own files and storage.
//
// It may import nothing of the project. Podman is in the ramdisk only where the ramdisk was built with it. Invariants: What is started here
// lives in name spaces of its own, of processes, mounts and IPC, below a root folder of its own in memory. When the first process there
// ends, the kernel ends all others and unmounts what they have mounted. So an end, an abort and a crash of the agent leave none.
// The container has all rights of the machine, for it installs an operating system; it is not kept from anything by force. But neither
// the agent's processes nor its files are among those that it sees. The registry's secret is in a file without a name, for the pull
// alone. It is gone before the container is begun, and is on no command line, in no variable and in no log.
// Source: podman-run(1), podman-pull(1), pid_namespaces(7), memfd_create(2).
package container

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Argument is the first argument by which this program is asked to be the first process of a container's name spaces.
const Argument = "ironyard-container"

// Folder is where a ramdisk that was built with podman has it.
const Folder = "/podman"

// podman is the program, below a root folder, and settingsFolder what it is told by.
const (
	podman         = "usr/bin/podman"
	settingsFolder = "etc/containers"
)

// Engine runs containers. Its fields are set before use.
type Engine struct {
	// Root is the folder with podman and what it needs, laid out as a root file system. It is only read.
	Root string
	// Config is the folder with podman's settings; empty: that of Root.
	Config string
	Log    *slog.Logger
}

// There reports whether a folder has podman.
func There(root string) bool {
	st, err := os.Stat(filepath.Join(root, podman))
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

// Job is a container to run to its end.
type Job struct {
	// Image is HOST[:PORT]/NAME, with a tag or a digest.
	Image string
	// Account is what the registry asks for; nil: nothing.
	Account *Account
	// Files are put below /tmp, which the container then shares.
	Files map[string][]byte
	// Command is what the container runs.
	Command []string
	// Came is told every counting how many bytes have come into the root in memory; nil: no one asks. What is pulled comes there.
	Came func(bytes int64)
}

// Account is a registry's user and password.
type Account struct {
	Host string
	// Basic is base64 of user:password, as podman keeps it.
	Basic string
}

// file is what podman reads by --authfile.
func (a *Account) file() ([]byte, error) {
	return json.Marshal(map[string]any{"auths": map[string]any{a.Host: map[string]string{"auth": a.Basic}}})
}

// Stage is how far a container has come.
type Stage string

// The stages.
const (
	Begin Stage = "begin" // podman was not started
	Pull  Stage = "pull"
	Run   Stage = "run"
)

// FailedError says that a container did not come to its good end.
type FailedError struct {
	Image string
	// During is the stage that failed. Only in Run the image's own program was started.
	During Stage
	Why    error
	Said   string // the end of what podman and the container printed
}

func (e *FailedError) Error() string {
	what := map[Stage]string{Begin: "podman cannot be started for image %s: %v: %s", Pull: "podman cannot pull image %s: %v. Its last words: %s", Run: "the container of image %s has failed: %v. Its last words: %s"}[e.During]
	return fmt.Sprintf(what, e.Image, e.Why, e.Said)
}

func (e *FailedError) Unwrap() error { return e.Why }

// told is what the first process says at its end.
type told struct {
	Stage  Stage  `json:"stage"`
	Status int    `json:"status"` // of podman
	Reason string `json:"reason,omitempty"`
}

// Files that the first process has besides its standard ones.
const (
	accountFD = 3
	toldFD    = 4
)

// maxTold bounds what the first process says.
const maxTold = 64 << 10

// closing is how long the kernel may take to close the output of processes that it has ended.
const closing = 5 * time.Second

// Run pulls the image, runs the container and waits for its end. What is printed goes to the log, up to a bound. The error is a
// *FailedError. When it returns, all that was started has ended.
func (e *Engine) Run(ctx context.Context, j Job) error {
	fail := func(during Stage, said string, err error) error {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return &FailedError{j.Image, during, err, said}
	}
	at, err := os.MkdirTemp("", "ironyard-container-")
	if err != nil {
		return fail(Begin, nothing, err)
	}
	defer func() { // nothing is mounted on it in this name space
		if rerr := os.Remove(at); rerr != nil {
			e.Log.Warn("a folder of podman's stays", "error", rerr)
		}
	}()
	account, hide, err := secret(j.Account)
	if err != nil {
		return fail(Begin, nothing, err)
	}
	defer account.Close()
	servers, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(Begin, nothing, err)
	}
	raw, err := json.Marshal(order{Root: e.Root, Config: cmp.Or(e.Config, filepath.Join(e.Root, settingsFolder)), At: at, Image: j.Image, Account: j.Account != nil, Files: j.Files, Command: j.Command, Resolve: servers})
	if err != nil {
		return fail(Begin, nothing, err)
	}
	answer, err := inMemory("told", nil)
	if err != nil {
		return fail(Begin, nothing, err)
	}
	defer answer.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Argument)
	cmd.Stdin = bytes.NewReader(raw)
	said := &lines{log: e.Log, hide: hide}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{account, answer}
	cmd.WaitDelay = closing
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC}
	ended := cmd.Start()
	if ended == nil {
		counted := make(chan struct{})
		var counter sync.WaitGroup
		if j.Came != nil {
			counter.Go(func() { count(cmd.Process.Pid, counted, j.Came) })
		}
		ended = cmd.Wait()
		close(counted)
		counter.Wait()
	}
	said.end()
	last := told{Stage: Run} // what has ended without a word may have run
	if cmd.Process == nil {
		last.Stage = Begin
	}
	if raw, err := io.ReadAll(io.NewSectionReader(answer, 0, maxTold)); err == nil && len(raw) > 0 {
		if err := json.Unmarshal(raw, &last); err != nil {
			return fail(Run, said.String(), fmt.Errorf("its first process says what cannot be read: %w", err))
		}
	}
	switch {
	case last.Reason != "":
		return fail(last.Stage, said.String(), errors.New(last.Reason))
	case last.Status != 0:
		return fail(last.Stage, said.String(), fmt.Errorf("podman ended with status %d", last.Status))
	case ended != nil:
		return fail(last.Stage, said.String(), ended)
	}
	return nil
}

// secret is a file without a name that holds what podman is to read of an account, and the words that no log may have.
func secret(a *Account) (f *os.File, hide []string, err error) {
	if a == nil {
		f, err = os.Open(os.DevNull)
		return f, nil, err
	}
	content, err := a.file()
	if err != nil {
		return nil, nil, err
	}
	f, err = inMemory("account", content)
	return f, hidden(a.Basic), err
}

// inMemory is a file without a name.
func inMemory(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
