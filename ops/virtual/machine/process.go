package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/ops/virtual/machine/qmp"
)

// greetingTimeout bounds QEMU's start-up, on a busy host.
const greetingTimeout = 30 * time.Second

// lockTimeout bounds the wait for a QEMU that is on its way out.
const lockTimeout = 2 * time.Second

// process is one QEMU, seen through its QMP connection.
type process struct {
	client *qmp.Client
	cmd    *exec.Cmd // nil if another process started it

	mu     sync.Mutex
	reason string // of the SHUTDOWN event, empty before
}

// event remembers why QEMU is about to exit.
func (p *process) event(e qmp.Event) {
	if e.Name != "SHUTDOWN" {
		return
	}
	var data struct{ Reason string }
	if json.Unmarshal(e.Data, &data) == nil {
		p.mu.Lock()
		p.reason = data.Reason
		p.mu.Unlock()
	}
}

// exited waits for QEMU's end and returns why it ended.
func (p *process) exited() string {
	<-p.client.Done()
	if p.cmd != nil {
		_ = p.cmd.Wait() // how it ended says less than the reason
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// running tells whether a QEMU holds the folder's lock, without taking it.
func running(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("looking at the lock of %s: %w", dir, err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// spawn starts QEMU with the given first boot device. One that is paused runs nothing
// until it is told to go on. Startup errors of QEMU come back as text.
func spawn(ctx context.Context, cfg Config, first string, paused bool) (*process, error) {
	lock, err := takeLock(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // QEMU's copy keeps it
	listener, err := listen(cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	log, err := os.Create(filepath.Join(cfg.Dir, qemuLog))
	if err != nil {
		return nil, err
	}
	defer log.Close()

	// ExtraFiles are numbered from 3. The machine is to outlive ctx.
	cmd := cfg.Command(context.WithoutCancel(ctx), cfg.board().qemu, cfg.arguments(first, paused, 3)...)
	cmd.Dir = cfg.Dir
	cmd.ExtraFiles = []*os.File{listener, lock}
	cmd.Stdout, cmd.Stderr = log, log
	// A session of its own: an operator's Ctrl-C is not a power cut.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cfg.DieWithParent {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting QEMU: %w", err)
	}
	// Closed here already: the last listener must go with QEMU, or a connection
	// to a QEMU that failed to start would wait for ever.
	listener.Close()
	p, err := attach(ctx, cfg.Dir)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		said, _ := os.ReadFile(filepath.Join(cfg.Dir, qemuLog))
		return nil, fmt.Errorf("starting QEMU: %w: %s", err, strings.TrimSpace(string(said)))
	}
	p.cmd = cmd
	return p, nil
}

// attach connects to the QEMU that runs in dir.
func attach(ctx context.Context, dir string) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	conn, err := dial(ctx, dir, qmpSocket)
	if err != nil {
		return nil, err
	}
	p := &process{}
	if p.client, err = qmp.New(ctx, conn, p.event); err != nil {
		return nil, err
	}
	return p, nil
}

// takeLock claims the folder for a QEMU. It tries for a moment: a QEMU that is
// exiting lets go of its connection before it lets go of the lock.
func takeLock(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if err == nil {
			return f, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another QEMU runs in %s: %w", dir, err)
		case <-poll.C:
		}
	}
}

// listen opens the QMP socket on QEMU's behalf, so that it is there before QEMU is.
func listen(dir string) (*os.File, error) {
	path, done, err := shortPath(dir, qmpSocket)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return l.File()
}

func dial(ctx context.Context, dir, socket string) (net.Conn, error) {
	path, done, err := shortPath(dir, socket)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// shortPath names a socket by way of a descriptor of its folder, since a socket's
// path has room for 107 bytes and a folder of tests is often longer.
func shortPath(dir, socket string) (path string, done func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socket), func() { f.Close() }, nil
}
