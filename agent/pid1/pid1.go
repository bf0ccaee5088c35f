// Package pid1 is the first process of the ramdisk: it mounts what programs
// expect, loads kernel modules, and keeps the agent running as a child.
//
// It may import agent/halt and agent/kmod. Invariants: it never exits (Linux would
// panic), it reaps every orphan, and when nothing helps any more it says why on the
// console and reboots after RebootDelay, so that a machine never sits dead in a
// rack. The agent is a child, not a goroutine, because a Go program cannot outlive
// an unrecovered panic of its own.
package pid1

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/halt"
	"github.com/ironyard/ironyard/agent/kmod"
)

const (
	// RebootDelay is how long the console shows why before a reboot.
	RebootDelay = 60 * time.Second
	// ExitReboot is the exit status by which the agent says that starting it again
	// is of no use: it has explained itself on the console.
	ExitReboot = 10
	// restarts is how often an agent that crashed is started again.
	restarts = 5
)

// Main prepares the ramdisk and runs the program args (the agent) until the
// machine goes down. It does not return.
func Main(log *slog.Logger, args ...string) {
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the first process has a bug: %v", p)
			}
		}()
		prepare(log)
		return supervise(log, args)
	}()
	log.Error("rebooting", "in", RebootDelay, "because", err)
	<-time.After(RebootDelay)
	reboot(log)
}

func prepare(log *slog.Logger) {
	mounts(log, early)
	kmod.Load(log, kmod.Boot)
	mounts(log, late)
	if err := os.Setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin"); err != nil {
		log.Warn("no PATH", "error", err)
	}
}

// supervise starts the agent again when it crashes, until that seems hopeless.
func supervise(log *slog.Logger, args []string) error {
	var last error
	for try := range restarts {
		p, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{Dir: "/", Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			return fmt.Errorf("starting the agent: %w", err)
		}
		status, err := reapUntil(p.Pid)
		switch {
		case err != nil:
			return fmt.Errorf("waiting for the agent: %w", err)
		case status.Exited() && status.ExitStatus() == ExitReboot:
			return errors.New("the agent cannot go on, see above")
		case status.Signaled():
			last = fmt.Errorf("the agent died of signal %v", status.Signal())
		default:
			last = fmt.Errorf("the agent ended with status %d", status.ExitStatus())
		}
		log.Error("starting the agent again", "try", try+1, "of", restarts, "because", last)
		<-time.After(2 * time.Second)
	}
	return fmt.Errorf("the agent ended %d times, at last: %w", restarts, last)
}

// reapUntil collects ended processes until pid is among them.
func reapUntil(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case got == pid && !status.Stopped() && !status.Continued():
			return status, nil
		}
	}
}

// reboot does not return.
func reboot(log *slog.Logger) {
	for {
		if err := halt.Now(log, halt.Reboot); err != nil {
			log.Error("cannot reboot", "error", err)
		}
		<-time.After(RebootDelay)
	}
}
