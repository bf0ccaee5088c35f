package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/e2e/netns"
)

// rackdProcess is the rackd that runs inside the rack's network.
type rackdProcess struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

// StartRackd starts rackd, with more on its command line, and returns once it is healthy.
func (r *Rack) StartRackd(ctx context.Context, more ...string) error {
	r.rackd.mu.Lock()
	defer r.rackd.mu.Unlock()
	if r.rackd.cmd != nil {
		return errors.New("rackd runs already")
	}
	key, token := filepath.Join(r.opts.Dir, "group.key"), filepath.Join(r.opts.Dir, "bus.token")
	group, err := r.Stack.Key.ForGroup("")
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(key, []byte(group.Text()), 0o600), os.WriteFile(token, []byte(r.Stack.BusToken), 0o600)); err != nil {
		return err
	}
	at := r.Address()
	low, high := at, at
	for range 99 {
		low = low.Next()
	}
	for range 198 {
		high = high.Next()
	}
	args := append([]string{"--name", "rackd-1", "--bus", "nats://" + net.JoinHostPort(at.String(), busPort), "--bus-token-file", token, "--key-file", key,
		"--data", filepath.Join(r.opts.Dir, "rackd"), "--interface", netns.Bridge, "--address", at.String(), "--dhcp-range", low.String() + "-" + high.String(),
		"--kernel", r.opts.Kernel, "--ramdisk", r.opts.Ramdisk, "--observe", net.JoinHostPort(at.String(), "9411"),
		"--kernel-params", "console=ttyS0,115200", "--heartbeat-timeout", "10s"}, append(r.opts.RackdArgs[:len(r.opts.RackdArgs):len(r.opts.RackdArgs)], more...)...)
	log, err := os.OpenFile(r.RackdLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := r.ns.Command(context.WithoutCancel(ctx), r.opts.Rackd, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done, err := startOnOwnThread(cmd)
	if err != nil {
		return fmt.Errorf("start rackd: %w", err)
	}
	r.rackd.cmd, r.rackd.done = cmd, done
	if err := r.awaitRackd(ctx, done); err != nil {
		r.end(syscall.SIGKILL)
		return err
	}
	return nil
}

// awaitRackd waits until rackd says that it is healthy.
func (r *Rack) awaitRackd(ctx context.Context, done chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("rackd was not ready within 20 s"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if r.rackdHealthy(ctx) {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("rackd ended at once; its log is %s", r.RackdLog())
		case <-ctx.Done():
			return fmt.Errorf("%w; its log is %s", context.Cause(ctx), r.RackdLog())
		case <-tick.C:
		}
	}
}

// RackdLog is the file with rackd's log.
func (r *Rack) RackdLog() string { return filepath.Join(r.opts.Dir, "rackd.log") }

// KillRackd ends rackd the hard way, as a power cut would.
func (r *Rack) KillRackd() { r.lockedEnd(syscall.SIGKILL) }

// StopRackd asks rackd to end and waits for it.
func (r *Rack) StopRackd() { r.lockedEnd(syscall.SIGTERM) }

func (r *Rack) lockedEnd(s syscall.Signal) {
	r.rackd.mu.Lock()
	defer r.rackd.mu.Unlock()
	r.end(s)
}

func (r *Rack) end(s syscall.Signal) {
	if r.rackd.cmd == nil {
		return
	}
	r.rackd.cmd.Process.Signal(s)
	select {
	case <-r.rackd.done:
	case <-time.After(15 * time.Second):
		r.rackd.cmd.Process.Kill()
		<-r.rackd.done
	}
	r.rackd.cmd = nil
}

// startOnOwnThread starts cmd and returns a channel that closes when it has ended.
// Pdeathsig means the death of the thread that started the child, so that thread
// does nothing else for as long as the child lives.
func startOnOwnThread(cmd *exec.Cmd) (done chan struct{}, err error) {
	done = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(done)
	}()
	return done, <-started
}
