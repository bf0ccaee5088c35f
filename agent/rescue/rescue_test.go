package rescue

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/shacrypt"
)

const password = "open sesame"

// server is one on a port of loopback.
func server(t *testing.T) (s *Server, address string) {
	t.Helper()
	hash, err := shacrypt.Hash(password)
	if err != nil {
		t.Fatal(err)
	}
	state, err := NewState(hash)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = New(slog.New(slog.DiscardHandler), state.Hash, state.Key); err != nil {
		t.Fatal(err)
	}
	s.pause = time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); s.ServeSSH(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return s, l.Addr().String()
}

// openSSH runs Debian's client, which knows the host key and nothing else.
func openSSH(t *testing.T, s *Server, address, user, word, stdin string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	known := "[" + host + "]:" + port + " " + string(ssh.MarshalAuthorizedKey(s.signer.PublicKey()))
	for name, text := range map[string]string{"known": known, "ask": "#!/bin/sh\necho '" + word + "'\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all := append([]string{"-F", "none", "-o", "UserKnownHostsFile=" + filepath.Join(dir, "known"), "-o", "GlobalKnownHostsFile=none", "-o", "StrictHostKeyChecking=yes",
		"-o", "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1", "-o", "LogLevel=ERROR", "-p", port, "-l", user}, args...)
	cmd := exec.CommandContext(ctx, "ssh", all...)
	cmd.Env = append(os.Environ(), "SSH_ASKPASS="+filepath.Join(dir, "ask"), "SSH_ASKPASS_REQUIRE=force", "SSH_AUTH_SOCK=")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("ssh %v does not end: %s", args, out)
	}
	return string(out), err
}

func exitCode(err error) int {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// Debian's OpenSSH client logs in by password and gets commands, a shell and a terminal, and nothing else.
func TestOpenSSH(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Fatal("openssh-client is needed to judge: ", err)
	}
	s, address := server(t)
	host, _, _ := net.SplitHostPort(address)
	for name, c := range map[string]struct {
		user, word, stdin string
		args              []string
		code              int
		says              string
	}{
		"a command":       {args: []string{host, "echo $USER"}, says: "rescue\n"},
		"its complaints":  {args: []string{host, "echo bad >&2"}, says: "bad\n"},
		"its status":      {args: []string{host, "exit 7"}, code: 7},
		"its death":       {args: []string{host, "kill -TERM $$"}, code: 255},
		"its input":       {args: []string{host, "cat | tr a-z A-Z"}, stdin: strings.Repeat("hello\n", 1000), says: strings.Repeat("HELLO\n", 1000)},
		"a shell":         {args: []string{host}, stdin: "echo in-$((6*7))\nexit 3\n", code: 3, says: "in-42"},
		"a terminal":      {args: []string{"-tt", host, "tty; echo $TERM-x; stty size >/dev/null && echo sized"}, says: "/dev/pts/"},
		"wrong password":  {word: "open barley", args: []string{host, "id"}, code: 255, says: "Permission denied"},
		"another user":    {user: "root", args: []string{host, "id"}, code: 255, says: "Permission denied"},
		"forwarding":      {args: []string{"-W", address, host}, code: 255, says: "stdio forwarding failed"},
		"a subsystem":     {args: []string{"-s", host, "sftp"}, code: 255, says: "subsystem request failed"},
		"what runs on":    {args: []string{host, "sleep 600 >/dev/null 2>&1 & echo started"}, says: "started\n"},
		"many lines back": {args: []string{"-tt", host, "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"}, says: "line 2999"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.user == "" {
				c.user = User
			}
			if c.word == "" {
				c.word = password
			}
			out, err := openSSH(t, s, address, c.user, c.word, c.stdin, c.args...)
			if exitCode(err) != c.code || !strings.Contains(out, c.says) {
				t.Errorf("ssh ended with %v and said %.300q, want status %d and %.100q", err, out, c.code, c.says)
			}
		})
	}
}

// A program that a caller has started does not outlive the connection by more than it needs to end.
func TestHangUp(t *testing.T) {
	// Started by nohup this process ignores the signal, its programs do too, and a shell cannot trap what it was started to ignore.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	_, address := server(t)
	c, err := ssh.Dial("tcp", address, &ssh.ClientConfig{User: User, Auth: []ssh.AuthMethod{ssh.Password(password)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hung up")
	out, err := session.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Start("trap 'echo yes >" + "\"" + file + "\"; exit' HUP; echo ready; while :; do sleep 0.05; done"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if raw, err := os.ReadFile(file); err == nil && bytes.HasPrefix(raw, []byte("yes")) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the program was not told that its caller has gone")
		}
	}
}

// Callers who do not log in are bounded by source, and do not keep those out who come from elsewhere.
func TestCallersAreBounded(t *testing.T) {
	s, address := server(t)
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	greeted := func(from string) bool {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
		c, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		n, _ := c.Read(make([]byte, 4))
		return n > 0
	}
	for i := range maxPerSource {
		if !greeted("127.0.0.2") {
			t.Fatalf("caller %d is turned away", i+1)
		}
	}
	if greeted("127.0.0.2") {
		t.Error("one source has more callers waiting than it may")
	}
	if !greeted("127.0.0.3") {
		t.Error("a caller from elsewhere is turned away")
	}
	for i := range maxPending {
		greeted("127.0.1." + string(rune('1'+i%9)))
	}
	s.gate.mu.Lock()
	pending := s.gate.pending
	s.gate.mu.Unlock()
	if pending > maxPending {
		t.Errorf("%d callers wait, more than %d", pending, maxPending)
	}
}

// A console asks again and again, and shows no password.
func TestConsole(t *testing.T) {
	s, _ := server(t)
	tty, err := newTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer tty.close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.ServeConsole(ctx, tty.slave.Name()) }()
	var seen string
	_ = tty.master.SetReadDeadline(time.Now().Add(20 * time.Second))
	expect := func(text string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(seen, text) {
			n, err := tty.master.Read(buf)
			seen += string(buf[:n])
			if err != nil {
				t.Fatalf("no %q: %v; the console shows %q", text, err, seen)
			}
		}
		_, seen, _ = strings.Cut(seen, text)
	}
	answer := func(text string) {
		t.Helper()
		if _, err := tty.master.WriteString(text + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	expect("login: ")
	answer(User)
	expect("Password: ")
	time.Sleep(50 * time.Millisecond) // until it reads without showing
	answer("wrong")
	expect("Login incorrect")
	expect("login: ")
	answer(User)
	expect("Password: ")
	time.Sleep(50 * time.Millisecond)
	answer(password)
	answer("echo in-$((6*7))")
	all := seen
	expect("in-42")
	if strings.Contains(all+seen, password) {
		t.Error("the console shows the password")
	}
	answer("exit")
	expect("login: ")
	cancel()
	tty.close()
	<-done
}

func TestStateIsForRootAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "rescue")
	if _, there, err := Load(path); there || err != nil {
		t.Fatalf("a rescue that never began: %v, %v", there, err)
	}
	hash, err := shacrypt.Hash(password)
	if err != nil {
		t.Fatal(err)
	}
	state, err := NewState(hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := state.Save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, there, err := Load(path)
	if err != nil || !there || again.Hash != hash || !bytes.Equal(again.Key, state.Key) {
		t.Errorf("read back: %v, %v", there, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path); err == nil {
		t.Error("half a file is taken for a rescue")
	}
	if _, err := New(slog.New(slog.DiscardHandler), password, state.Key); err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("a password that is not hashed: %v", err)
	}
	if _, err := findShell(t.TempDir()); !errors.Is(err, ErrNoShell) {
		t.Errorf("a ramdisk without shell: %v", err)
	}
}
