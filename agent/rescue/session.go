package rescue

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// What clients ask of a session (RFC 4254, section 6).
type (
	ptyRequest struct {
		Term                       string
		Columns, Rows, Width, High uint32
		Modes                      string
	}
	windowChange struct{ Columns, Rows, Width, High uint32 }
	execRequest  struct{ Command string }
	exitStatus   struct{ Status uint32 }
	exitSignal   struct {
		Signal  string
		Dumped  bool
		Message string
		Lang    string
	}
)

// session serves one channel: one shell or one command, with a terminal or without.
func (s *Server) session(ctx context.Context, ch ssh.Channel, asked <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer ch.Close()
	var tty *terminal
	defer func() { tty.close() }()
	term, running := "", false
	ended := make(chan struct{})
	for {
		var r *ssh.Request
		select {
		case <-ended:
			return
		case r = <-asked:
		case <-ctx.Done():
		}
		if r == nil { // the client has gone, or the connection ends
			cancel()
			if running {
				<-ended
			}
			return
		}
		ok := false
		switch r.Type {
		case "pty-req":
			var p ptyRequest
			if !running && tty == nil && ssh.Unmarshal(r.Payload, &p) == nil {
				var err error
				if tty, err = newTerminal(); err != nil {
					s.log.Warn("rescue: a session gets no terminal", "error", err)
					break
				}
				tty.resize(p.Columns, p.Rows)
				term, ok = p.Term, true
			}
		case "window-change":
			var p windowChange
			if tty != nil && ssh.Unmarshal(r.Payload, &p) == nil {
				tty.resize(p.Columns, p.Rows)
				ok = true
			}
		case "shell", "exec":
			if running {
				break
			}
			cmd := s.command(ctx, term)
			if r.Type == "exec" {
				var p execRequest
				if ssh.Unmarshal(r.Payload, &p) != nil {
					break
				}
				cmd.Args = []string{s.shell, "-c", p.Command}
			}
			running, ok = true, true
			go func() {
				defer close(ended)
				tell(ch, run(cmd, ch, tty))
			}()
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
}

// command is a login shell in a session of its own, which gets SIGHUP when ctx ends.
func (s *Server) command(ctx context.Context, term string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.shell)
	cmd.Args = []string{"-sh"}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/bin:/sbin:/usr/bin:/usr/sbin", "HOME=/", "USER=" + User, "LOGNAME=" + User, "SHELL=" + s.shell, "PS1=rescue:\\w# "}
	if term != "" {
		cmd.Env = append(cmd.Env, "TERM="+term)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGHUP) }
	cmd.WaitDelay = hangUp
	return cmd
}

// run runs cmd at the other end of a channel until it ends.
func run(cmd *exec.Cmd, ch ssh.Channel, tty *terminal) error {
	if tty == nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(in, ch)
			in.Close()
		}()
		return cmd.Wait()
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty.slave, tty.slave, tty.slave
	cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, 0
	if err := cmd.Start(); err != nil {
		return err
	}
	tty.slave.Close() // so that reading ends with the last program that has it open
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(ch, tty.master)
	}()
	go func() { _, _ = io.Copy(tty.master, ch) }()
	err := cmd.Wait()
	tty.drain(shown)
	return err
}

// tell sends how the command has ended.
func tell(ch ssh.Channel, err error) {
	failed, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(exitStatus{}))
	case failed == nil:
		_, _ = io.WriteString(ch.Stderr(), err.Error()+"\r\n")
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(exitStatus{127}))
	case failed.Exited():
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(exitStatus{uint32(failed.ExitCode())}))
	default:
		signal := unix.SignalName(failed.Sys().(syscall.WaitStatus).Signal())
		if len(signal) > 3 {
			signal = signal[3:] // the protocol leaves out SIG
		}
		_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(exitSignal{Signal: signal}))
	}
}

// hostname is the machine's, for the console.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "(none)" || name == "" {
		return "rescue"
	}
	return name
}
