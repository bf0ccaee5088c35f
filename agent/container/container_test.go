package container

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/container/containertest"
)

// The program of the test is also the first process of the containers, as the agent is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Argument {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

const (
	user     = "tenant"
	password = "0pen-sesame-7e57"
)

// system is an image with Debian's busybox and a script in the place of bootc.
func system(t *testing.T, script string) []byte {
	t.Helper()
	const busybox = "/bin/busybox"
	out, err := exec.Command("ldd", busybox).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]containertest.File{}
	for f := range strings.FieldsSeq(string(out) + " " + busybox) {
		if !strings.HasPrefix(f, "/") {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(f, "/")] = containertest.File{Perm: 0o755, Data: data}
	}
	for _, name := range []string{"sh", "cat", "grep", "ls", "nc", "find", "sleep", "mount", "mkdir"} {
		files["bin/"+name] = containertest.File{Link: true, Data: []byte("busybox")}
	}
	if script != "" {
		files["usr/bin/bootc"] = containertest.File{Perm: 0o755, Data: []byte("#!/bin/sh\nexport PATH=/bin\n" + script)}
	}
	layer, err := containertest.Layer(files)
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// written is a log that tells when a text comes.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	came chan struct{}
}

func awaiting(text string) *written { return &written{want: text, came: make(chan struct{})} }

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.want != "" && strings.Contains(w.text.String(), w.want) {
		w.want = ""
		close(w.came)
	}
	return len(p), nil
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// rig is a registry that asks for the account, with one image, and an engine by this host's podman.
type rig struct {
	*Engine
	log   *written
	image string
}

// newRig makes one. The settings of podman are this host's, but for the registry, which speaks no TLS.
func newRig(t *testing.T, script, want string) rig {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatal("name spaces need root")
		}
		t.Skip("name spaces need root; IRONYARD_E2E=1 makes that an error")
	}
	for program, pkg := range map[string]string{"podman": "podman", "crun": "crun", "conmon": "conmon", "busybox": "busybox", "curl": "curl"} {
		containertest.Program(t, program, pkg)
	}
	r := containertest.New(t)
	if err := r.Push(t.Context(), "os", "1", system(t, script)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close()
	r.Serve(t, host, user+":"+password, exec.CommandContext)
	log := awaiting(want)
	return rig{&Engine{Root: "/", Config: settings(t, host), Log: slog.New(slog.NewTextHandler(log, nil))}, log, host + "/os:1"}
}

// settings are podman's of this host, and the word that the registry speaks no TLS.
func settings(t *testing.T, host string) string {
	t.Helper()
	at := t.TempDir()
	conf := filepath.Join(at, "registries.conf.d")
	if err := errors.Join(os.CopyFS(at, os.DirFS("/etc/containers")), os.MkdirAll(conf, 0o755),
		os.WriteFile(filepath.Join(conf, "test.conf"), fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", host), 0o644)); err != nil {
		t.Fatal(err)
	}
	return at
}

func (r rig) job(password string) Job {
	host, _, _ := strings.Cut(r.image, "/")
	return Job{Image: r.image, Account: &Account{Host: host, Basic: base64.StdEncoding.EncodeToString([]byte(user + ":" + password))},
		Files: map[string][]byte{"keys": []byte("ssh-ed25519 AAAA tenant\n")}, Command: []string{"bootc", "install", "to-disk", "/dev/null"}}
}

// What bootc asks for is there: a container of podman's with all rights, among the processes of its host, whose device files, storage and
// files it has. The agent's own files and processes are not, and nothing of the registry's secret is.
func TestWhatAContainerSees(t *testing.T) {
	dir, err := os.MkdirTemp("/run", "agents-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("agents-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	r := newRig(t, `
set -eu
[ "$*" = "install to-disk /dev/null" ]
[ -f /run/.containerenv ] && [ $$ != 1 ] && [ -b /dev/loop0 -o -c /dev/null ] && [ -d /var/lib/containers/storage/overlay-images ]
[ "$(cat /tmp/keys)" = "ssh-ed25519 AAAA tenant" ]
grep -q '^CapEff:.*fffffffff$' /proc/self/status || { grep Cap /proc/self/status; grep Cap /proc/1/status; }
mkdir /m && mount -t tmpfs none /m
[ -x /proc/1/root/usr/bin/podman ] || { echo "no podman at the host's root"; exit 1; }
for token in /proc/[0-9]*/root`+filepath.Join(dir, "token")+`; do [ ! -e "$token" ] || { echo "it sees $token"; exit 1; }; done
p=0pen-sesame; b=`+basic[:12]+`
if grep -l -e "$p" -e "$b" /proc/[0-9]*/cmdline /proc/[0-9]*/environ; then echo "it is in a process"; exit 1; fi
if grep -r -l -e "$p-7e57" -e "`+basic+`" /proc/1/root/tmp /proc/1/root/run /proc/1/root/etc /proc/1/root/root /proc/1/root/var/tmp /var/lib/containers/storage/overlay-images; then echo "it is in a file"; exit 1; fi
for p in /proc/[0-9]*; do for f in $p/fd/*; do case "$(ls -l $f 2>/dev/null)" in *memfd:account*) echo "it is open in $p"; exit 1;; esac; done; done
echo "all is well"
`, "")
	if err := r.Run(t.Context(), r.job(password)); err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	if !strings.Contains(r.log.String(), "all is well") {
		t.Errorf("the log has no word of the container's:\n%s", r.log)
	}
}

// A registry that refuses the account ends the job before a program of the image was started. No text has the secret.
func TestAWrongSecret(t *testing.T) {
	r := newRig(t, "echo it runs", "")
	err := r.Run(t.Context(), r.job("wr0ng-secret"))
	var failed *FailedError
	if !errors.As(err, &failed) || failed.During != Pull || !strings.Contains(err.Error(), r.image) || !strings.Contains(err.Error(), "unauthorized") && !strings.Contains(err.Error(), "authentication required") {
		t.Errorf("%v", err)
	}
	if said := fmt.Sprint(err, r.log); strings.Contains(said, "wr0ng") || strings.Contains(said, "it runs") {
		t.Errorf("it says %s", said)
	}
}

// What a container starts ends with it: at an abort, and where it has left its parent.
func TestAnAbortEndsWhatAContainerHasStarted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	r := newRig(t, fmt.Sprintf("(nc -l -p %d 2>&1 &)\nuntil grep -q %04X.*0A /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done\necho it listens\nsleep 600\n", addr.Port, addr.Port), "it listens")
	bound, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ctx, cancel := context.WithCancelCause(bound)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, r.job(password)) }()
	select {
	case <-r.log.came:
	case err := <-ended:
		t.Fatalf("%v\n%s", err, r.log)
	}
	again, err := net.ListenTCP("tcp", addr)
	if err == nil {
		again.Close()
		t.Fatal("nothing listens")
	}
	aborted := errors.New("the work was aborted")
	began := time.Now()
	cancel(aborted)
	if err := <-ended; !errors.Is(err, aborted) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > closing {
		t.Errorf("the abort took %v", took)
	}
	if again, err = net.ListenTCP("tcp", addr); err != nil {
		t.Fatalf("what the container has started still listens: %v", err)
	}
	again.Close()
}

// What comes into the root in memory is counted: the image, and no more once nothing comes.
func TestWhatComesIsCounted(t *testing.T) {
	r := newRig(t, "echo it runs\nsleep 600\n", "")
	bound, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ctx, cancel := context.WithCancelCause(bound)
	seen := errors.New("seen")
	j := r.job(password)
	var told []int64
	j.Came = func(bytes int64) {
		told = append(told, bytes)
		if n := len(told); n > 1 && strings.Contains(r.log.String(), "it runs") && told[n-1] == told[n-2] {
			cancel(seen)
		}
	}
	if err := r.Run(ctx, j); !errors.Is(err, seen) {
		t.Fatalf("%v, told %v\n%s", err, told, r.log)
	}
	st, err := os.Stat("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	if last := told[len(told)-1]; last < st.Size() || last > 1<<30 || !slices.IsSorted(told) {
		t.Errorf("told %v of an image of more than %d bytes", told, st.Size())
	}
}

// An image that cannot install itself, and one that fails, are told by the status and by the last words.
func TestAContainerThatFails(t *testing.T) {
	for want, script := range map[string]string{"executable file `bootc` not found": "", "status 7": "for i in 1 2 3; do echo line $i; done; echo the disk is bad >&2; exit 7"} {
		r := newRig(t, script, "")
		err := r.Run(t.Context(), r.job(password))
		var failed *FailedError
		if !errors.As(err, &failed) || failed.During != Run || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q\n%s", err, want, r.log)
		}
		if script != "" && !strings.Contains(err.Error(), "the disk is bad") {
			t.Errorf("its last words are not in %v", err)
		}
	}
}

// A container that prints without an end fills neither the log nor the agent's memory, and its secret-looking words stay out.
func TestLinesAreBounded(t *testing.T) {
	log := awaiting("")
	l := &lines{log: slog.New(slog.NewTextHandler(log, nil)), hide: hidden(base64.StdEncoding.EncodeToString([]byte("u:s3cret")))}
	for i := range 3 * maxLogged {
		fmt.Fprintf(l, "%d s3cret \x1b[31m%s\n", i, strings.Repeat("x", 2*maxLine))
	}
	fmt.Fprint(l, strings.Repeat("y", 1<<20))
	l.end()
	if n := strings.Count(log.String(), "podman says"); n != maxLogged+1 {
		t.Errorf("the log has %d lines", n)
	}
	if said := l.String() + log.String(); strings.Contains(said, "s3cret") || strings.Contains(said, "\x1b") || len(l.String()) > maxSaid+maxLine || !strings.Contains(l.String(), "yyy") {
		t.Errorf("%d bytes are kept: %s", len(l.String()), l)
	}
}
