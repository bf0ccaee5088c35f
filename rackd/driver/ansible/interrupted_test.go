package ansible

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// A rackd is killed while a playbook runs, and so is the playbook. Its files stay, with secrets among them. The next rackd of
// the host does, and leaves those of rackds that live.
func TestFilesOfAKilledRackd(t *testing.T) {
	if os.Getenv("IRONYARD_TEST_KILLED") != "" {
		p, err := newPlace()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.dir, "configdrive"), []byte("s3cret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(os.Getenv("IRONYARD_TEST_KILLED"), []byte(p.dir), 0o600); err != nil {
			t.Fatal(err)
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal(self.Kill())
	}
	t.Setenv("TMPDIR", t.TempDir())
	note := filepath.Join(t.TempDir(), "dir")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFilesOfAKilledRackd$")
	child.Env = append(os.Environ(), "IRONYARD_TEST_KILLED="+note)
	out, err := child.CombinedOutput()
	if child.ProcessState.Exited() {
		t.Fatalf("the rackd was not killed: %v\n%s", err, out)
	}
	left, err := os.ReadFile(note)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(string(left), "configdrive")); err != nil {
		t.Fatal(err)
	}
	lives, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(os.TempDir(), placeName+"of-another-program")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	folder := folder(t)
	if err := NewPlays(Settings{Folder: folder}).Ready(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(left)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files of the killed rackd are there: %v", err)
	}
	for _, stays := range []string{lives.dir, other} {
		if _, err := os.Stat(stays); err != nil {
			t.Errorf("%s is gone: %v", stays, err)
		}
	}
	if err := lives.remove(); err != nil {
		t.Error(err)
	}
}

// replaced is the fence of a step whose work another request has taken the place of.
type replaced struct {
	driver.Fence
	asked chan struct{} // has places
	also  error
}

func (f replaced) Check() error {
	select {
	case f.asked <- struct{}{}:
	default:
	}
	return errors.Join(driver.ErrFenced, f.also)
}

// moved is an agent at another address.
type moved struct {
	driver.Agent
	host string
}

func (m moved) Host() string { return m.host }

// A request beside the flow, for the boot device say, is a piece of work of its own, and goes on with the flow on the same rackd. The
// playbook runs on; it ends where another rackd has the node, and where the request has restarted the machine.
func TestAPlaybookOutlivesARequestBesideIt(t *testing.T) {
	books := folder(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(books), program), []byte("#!/bin/sh\nexec /bin/sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := NewPlays(Settings{Folder: books})
	begin := func(f driver.Fence) *play {
		own, err := newPlace()
		if err != nil {
			t.Fatal(err)
		}
		one, err := p.start(f, own, files{folder: books, playbook: filepath.Join(books, "deploy.yaml")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		one.host = "127.0.0.1"
		t.Cleanup(func() {
			one.kill(errors.New("the test ends"))
			<-one.ended
		})
		return one
	}
	await := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatal(what)
		}
	}
	beside := replaced{&drivertest.Fence{}, make(chan struct{}), fmt.Errorf("a request: %w", driver.ErrContinued)}
	one := begin(beside)
	for range 2 {
		await("the fence is not asked", beside.asked)
	}
	select {
	case <-one.ended:
		t.Fatal("a request beside the flow has ended the playbook")
	default:
	}
	r := drivertest.NewRig()
	task := r.Task(networkboot.IPXE())
	if out, err := p.follow(t.Context(), task, &handle{}, one); err != nil || out == driver.Done() || one.killed() {
		t.Errorf("the step of the request: %+v, %v", out, err)
	}
	r.Lose()
	await("the playbook runs on without its node", one.ended)
	await("the playbook of a node of another rackd runs on", begin(replaced{&drivertest.Fence{}, make(chan struct{}, 9), nil}).ended)

	one = begin(&drivertest.Fence{})
	task = drivertest.NewRig().Task(networkboot.IPXE())
	for _, host := range []string{"", "192.0.2.7"} { // no agent has called since, or one has
		task.Agent = moved{task.Agent, host}
		if out, err := p.follow(context.Background(), task, &handle{}, one); err != nil || out == driver.Done() || !one.killed() {
			t.Errorf("a machine that was restarted, at %q: %+v, %v", host, out, err)
		}
		await("the playbook runs on, and its machine has started again", one.ended)
		one = begin(&drivertest.Fence{})
	}
}
