package replicas

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/failpoint"
)

// replica is a process of central.
type replica struct {
	t        *testing.T
	endpoint string
	cmd      *exec.Cmd
	log      *tail
	ended    chan struct{} // closed when the process has
}

// startReplica starts a replica with failpoints armed ("" for none) and waits until its
// API answers.
func (f *fleet) startReplica(points string) *replica {
	f.Helper()
	r := &replica{t: f.T, log: new(tail), ended: make(chan struct{})}
	r.cmd = exec.Command(os.Args[0], "-test.run=^$")
	r.cmd.Env = append(os.Environ(), envDatabase+"="+f.database, envBus+"="+f.bus.ClientURL(), envKey+"="+f.key.Text(), failpoint.Env+"="+points)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.cmd.Stderr = r.log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		f.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { r.cmd.Wait(); close(r.ended) }()
	if err != nil {
		<-r.ended
		f.Fatalf("a replica does not start: %v\n%s", err, r.log)
	}
	r.endpoint = strings.TrimSpace(line)
	f.Cleanup(func() { r.cmd.Process.Kill(); <-r.ended })
	return r
}

// stop ends the replica as an operator does.
func (r *replica) stop() {
	r.t.Helper()
	r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		r.t.Fatalf("a replica does not stop:\n%s", r.log)
	}
}

// killed reports whether the process has died of SIGKILL.
func (r *replica) killed() bool {
	status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// tail keeps the end of a log.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b = append(l.b, p...); len(l.b) > 16<<10 {
		l.b = bytes.Clone(l.b[len(l.b)-8<<10:])
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
