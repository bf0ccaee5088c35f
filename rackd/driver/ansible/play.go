package ansible

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/rackd/driver"
)

const (
	// fenceEvery is how often the fence is asked while a playbook runs.
	fenceEvery = time.Second
	// abandoned is how long a playbook runs on for a step that does not look at it.
	abandoned = time.Minute
	// maxLine bounds one line of a playbook's output, and maxKept what is kept of its errors, in bytes.
	maxLine = 64 << 10
	maxKept = 600
	// dying is how long rackd waits for the pipes of a playbook that was killed.
	dying = 10 * time.Second
)

// play is a playbook that runs. Its methods are safe for concurrent use.
type play struct {
	cmd   *exec.Cmd
	files place
	out   lines
	ended chan struct{} // closed when it has ended, and its files are gone

	host string // the machine's, as the playbook has it

	mu     sync.Mutex
	fence  driver.Fence // of the step that looked last
	looked time.Time    // by the step
	tasks  []string     // begun since the step last looked
	errors string       // the newest that Ansible has told
	last   string       // line of all
	why    error        // it was killed
	err    error        // of its end
}

// start runs a playbook, which f lets on. Its files go with it.
func (p *Plays) start(f driver.Fence, own place, where files, args []string) (*play, error) {
	if where.key != "" {
		args = append(args, "--private-key="+where.key)
	}
	one := &play{files: own, ended: make(chan struct{}), looked: time.Now(), fence: f}
	one.out.take = one.line
	var err error
	// In a name space of processes of its own all that it starts ends with it, also connections that leave its group.
	for _, flags := range []uintptr{unix.CLONE_NEWPID, 0} {
		one.cmd = exec.Command(program, append([]string{where.playbook}, args...)...)
		one.cmd.Dir, one.cmd.Env, one.cmd.Stdout, one.cmd.Stderr = where.folder, environment(where.folder, own.dir), &one.out, &one.out
		one.cmd.WaitDelay = dying
		one.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: flags}
		if err = one.cmd.Start(); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start ansible-playbook: %w", err)
	}
	go one.watch()
	go func() {
		err := one.cmd.Wait()
		if one.cmd.SysProcAttr.Cloneflags == 0 { // else the kernel has ended what it has left behind
			one.killGroup()
		}
		err = errors.Join(err, own.remove()) // secrets may lie there
		one.mu.Lock()
		one.err = err
		one.mu.Unlock()
		close(one.ended)
	}()
	return one, nil
}

// environment is what the playbook sees: nothing of rackd's own but the path, the home with its keys and an SSH agent.
func environment(folder, dir string) []string {
	env := []string{"LC_ALL=C.UTF-8", "ANSIBLE_RETRY_FILES_ENABLED=False", "ANSIBLE_NOCOLOR=1", "ANSIBLE_FORCE_COLOR=0", "ANSIBLE_LOCAL_TEMP=" + filepath.Join(dir, "tmp"),
		"PYTHONUNBUFFERED=1", "ANSIBLE_SSH_ARGS=-o ControlMaster=no -o ControlPath=none"}
	for _, name := range []string{"PATH", "HOME", "SSH_AUTH_SOCK"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	if own := filepath.Join(folder, "ansible.cfg"); exists(own) {
		return append(env, "ANSIBLE_CONFIG="+own)
	}
	// As in Ironic: a ramdisk makes its host key when it boots.
	return append(env, "ANSIBLE_CONFIG="+filepath.Join(dir, emptyConfig), "ANSIBLE_HOST_KEY_CHECKING=False", "ANSIBLE_SSH_PIPELINING=True",
		"ANSIBLE_SSH_EXTRA_ARGS=-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lines divides what a playbook prints into lines. Of one that is too long it keeps the beginning. Only the goroutine that copies the
// output writes to it.
type lines struct {
	rest []byte
	take func(string)
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		part, after, ends := bytes.Cut(rest, []byte("\n"))
		l.rest = append(l.rest, part[:min(len(part), maxLine-len(l.rest))]...)
		if rest = after; ends {
			l.take(string(l.rest))
			l.rest = l.rest[:0]
		}
	}
	return len(b), nil
}

func (o *play) line(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	o.last = text
	switch {
	case strings.HasPrefix(text, "TASK [") || strings.HasPrefix(text, "RUNNING HANDLER ["):
		_, name, _ := strings.Cut(text, "[")
		name, _, _ = strings.Cut(name, "] *")
		o.tasks = append(o.tasks, name)
	case strings.HasPrefix(text, "fatal: ") || strings.HasPrefix(text, "ERROR! ") || strings.HasPrefix(text, "failed: "):
		o.errors = text
	}
}

// watch kills the playbook when its node is no longer this rackd's, or its step looks no more. A request beside the flow, as one for the
// boot device, replaces the step's work: its own step looks soon.
func (o *play) watch() {
	every := time.NewTicker(fenceEvery)
	defer every.Stop()
	for {
		select {
		case <-o.ended:
			return
		case <-every.C:
		}
		o.mu.Lock()
		idle, f := time.Since(o.looked), o.fence
		o.mu.Unlock()
		if err := f.Check(); err != nil && !errors.Is(err, driver.ErrContinued) {
			o.kill(err)
			return
		}
		if idle > abandoned {
			o.kill(errors.New("its step has ended"))
			return
		}
	}
}

// kill ends the playbook and all that it has started, and does not wait.
func (o *play) kill(why error) {
	o.mu.Lock()
	if o.why == nil {
		o.why = why
	}
	o.mu.Unlock()
	select {
	case <-o.ended:
	default:
		o.killGroup()
	}
}

func (o *play) killGroup() { _ = syscall.Kill(-o.cmd.Process.Pid, syscall.SIGKILL) } // it may have ended

// look returns the tasks that have begun since it was last called, and whether the playbook has ended, with which error. From now on f lets
// the playbook on.
func (o *play) look(f driver.Fence) (tasks []string, ended bool, err error) {
	select {
	case <-o.ended:
		ended = true
	default:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looked, o.fence = time.Now(), f
	tasks, o.tasks = o.tasks, nil
	switch {
	case !ended:
		return tasks, false, nil
	case o.why != nil:
		return tasks, true, fmt.Errorf("the playbook was ended: %w", o.why)
	case o.err == nil:
		return tasks, true, nil
	}
	said := o.errors
	if said == "" {
		said = o.last
	}
	if len(said) > maxKept {
		said = said[:maxKept] + "..."
	}
	return tasks, true, fmt.Errorf("the playbook has failed (%w): %s", o.err, strings.ToValidUTF8(said, "?"))
}

// killed reports whether the playbook was ended by rackd.
func (o *play) killed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why != nil
}

// await waits for the end of a playbook that was killed.
func (o *play) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*dying)
	defer cancel()
	select {
	case <-o.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a playbook that was killed has not ended: %w: %w", context.Cause(ctx), driver.ErrUnreachable)
	}
}
