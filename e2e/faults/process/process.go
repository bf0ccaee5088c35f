// Package process runs the daemons of a fault test: unchanged programs that the test
// kills, stops, continues and starts again.
//
// It may import e2e/faults/network. Invariants: a daemon ends when this process does,
// whatever ends it; a daemon that ends unasked is noted and started again, as a service
// manager would, and one that a test ended stays down until the test starts it.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/network"
)

// Spec says how to run a daemon.
type Spec struct {
	Name string
	Host *network.Host
	Path string
	Args []string
	// Env is added to this process's environment.
	Env []string
	Dir string // working folder; empty: this process's
	// Log is the file that stdout and stderr are added to.
	Log string
	// User runs the daemon as another user; nil: as this one.
	User *syscall.Credential
	// StopWith asks the daemon to end; 0: SIGTERM.
	StopWith syscall.Signal
}

// restartAfter is how long a service manager waits before it starts a daemon again
// that ended by itself.
const restartAfter = 500 * time.Millisecond

// Process is a daemon. Safe for concurrent use.
type Process struct {
	spec Spec

	mu      sync.Mutex
	up      *running // the newest life, nil before the first
	unasked []Exit
	closing bool
	work    sync.WaitGroup
}

// Exit is an end that nobody asked for.
type Exit struct {
	At    time.Time
	State string
}

type running struct {
	cmd   *exec.Cmd
	asked bool          // its end is wanted: it is not started again by itself
	done  chan struct{} // closed when it has ended
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// New describes a daemon that is down.
func New(s Spec) *Process {
	if s.StopWith == 0 {
		s.StopWith = syscall.SIGTERM
	}
	return &Process{spec: s}
}

// Name is the daemon's.
func (p *Process) Name() string { return p.spec.Name }

// Host is where it runs.
func (p *Process) Host() *network.Host { return p.spec.Host }

// Log is the file with what it said.
func (p *Process) Log() string { return p.spec.Log }

// Start starts the daemon unless it runs. env is added for this life only: one that
// is started again by itself has it no more.
func (p *Process) Start(env ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up != nil && !p.up.ended() || p.closing {
		return nil
	}
	return p.start(env)
}

// start is called with the lock held.
func (p *Process) start(env []string) error {
	log, err := os.OpenFile(p.spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.spec.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.spec.Path, p.spec.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.spec.Dir, log, log
	cmd.Env = slices.Concat(os.Environ(), p.spec.Env, env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: p.spec.User}
	fmt.Fprintf(log, "--- %s starts %s %v\n", time.Now().Format(time.RFC3339Nano), env, cmd.Args)
	up := &running{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	p.work.Go(func() {
		// The thread that starts a program is its parent for the parent-death signal,
		// and it is on the host for good: it waits, and ends with its goroutine.
		runtime.LockOSThread()
		err := p.spec.Host.Start(cmd)
		started <- err
		if err != nil {
			return
		}
		cmd.Wait()
		close(up.done)
		p.noteEnd(up)
	})
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.spec.Name, err)
	}
	p.up = up
	return nil
}

// noteEnd notes an end and starts the daemon again if nobody asked for it.
func (p *Process) noteEnd(up *running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if up.asked || p.closing || p.up != up {
		return
	}
	p.unasked = append(p.unasked, Exit{time.Now(), up.cmd.ProcessState.String()})
	p.work.Go(func() {
		time.Sleep(restartAfter)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.up == up && !up.asked && !p.closing {
			if err := p.start(nil); err != nil {
				p.unasked = append(p.unasked, Exit{time.Now(), "not started again: " + err.Error()})
			}
		}
	})
}

// Unasked returns the ends that nobody asked for.
func (p *Process) Unasked() []Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.unasked)
}

// Expect says that the daemon will end by itself, by a failpoint, and is to stay down;
// the channel is closed when it has.
func (p *Process) Expect() (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up == nil || p.up.ended() {
		return nil, fmt.Errorf("%s is down", p.spec.Name)
	}
	p.up.asked = true
	return p.up.done, nil
}

// PID is the process's number, 0 while it is down.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up == nil || p.up.ended() {
		return 0
	}
	return p.up.cmd.Process.Pid
}

// Signal sends a signal that does not end the daemon, such as SIGSTOP.
func (p *Process) Signal(s syscall.Signal) error {
	pid := p.PID()
	if pid == 0 {
		return fmt.Errorf("%s is down", p.spec.Name)
	}
	return syscall.Kill(pid, s)
}

// Kill ends the daemon as a power cut would. One that is down stays so.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop asks the daemon to end and waits; after ten seconds it is killed, which is an
// error.
func (p *Process) Stop() error {
	done := p.signalEnd(p.spec.StopWith)
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-time.After(10 * time.Second):
		if asked := p.signalEnd(syscall.SIGQUIT); asked != nil { // a Go program says in its log what it is doing
			select {
			case <-asked:
			case <-time.After(time.Second):
			}
		}
		p.end(syscall.SIGKILL)
		return fmt.Errorf("%s did not end within 10 s of %v; its log is %s", p.spec.Name, p.spec.StopWith, p.spec.Log)
	}
}

func (p *Process) end(s syscall.Signal) {
	if done := p.signalEnd(s); done != nil {
		<-done
	}
}

// signalEnd sends a signal that ends the daemon and returns what is closed when it has
// ended, nil when it never ran.
func (p *Process) signalEnd(s syscall.Signal) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up == nil {
		return nil
	}
	p.up.asked = true
	if !p.up.ended() {
		p.up.cmd.Process.Signal(s) // an error means that it has just ended
	}
	return p.up.done
}

// Close kills the daemon for good and waits for all that belongs to it.
func (p *Process) Close() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.Kill()
	p.work.Wait()
}

// hopeless is how often a daemon may end by itself while it is waited for.
const hopeless = 10

// Await polls until ready says so. It fails when ctx ends or the daemon ends again and
// again.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	before := len(p.Unasked())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if exits := p.Unasked(); len(exits)-before >= hopeless {
			return fmt.Errorf("%s ended %d times, last with %s; its log is %s", p.spec.Name, len(exits)-before, exits[len(exits)-1].State, p.spec.Log)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready: %w; its log is %s", p.spec.Name, err, p.spec.Log)
		case <-tick.C:
		}
	}
}
