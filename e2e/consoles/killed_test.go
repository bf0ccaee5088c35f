package consoles

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/ops/terminal"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/consolecopy"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// copiedWithin is how long a machine's last words may be in no copy, as docs/consoles.md says, and some time for a slow host.
const copiedWithin = 6*time.Second + 14*time.Second

// A machine crashes, and then the rackd that holds its console dies by kill -9. Another one takes the node over and has the crash text.
// A real sshd leads to the machine.
func TestCrashTextOutlivesItsRackd(t *testing.T) {
	foreign(t)
	k, socket := newPort(t)
	s := startSSHD(t, socket, "")
	b := redfishtest.Start(t, "Contoso", nil)
	b.At[redfishtest.System]["SerialConsole"] = map[string]any{"SSH": map[string]any{"ServiceEnabled": true, "Port": s.at}}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/rackd", "../../rackd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build rackd: %v: %s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- stack.Run(ctx, stack.Options{Dir: filepath.Join(dir, "central"), Listen: "127.0.0.1:0", BusListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, func(s *stack.Stack) { up <- s })
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var central *stack.Stack
	select {
	case central = <-up:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	site, err := bus.Open(t.Context(), central.Conn, "", bus.Settings{OpenOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the bucket of copies is there", func() bool { _, err := site.OpenConsoles(t.Context()); return err == nil })
	copies, err := site.OpenConsoles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := central.Key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"token": central.BusToken, "key": key.Text()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rackds := map[string]*exec.Cmd{}
	for _, name := range []string{"first", "second"} {
		var said syncBuffer
		cmd := exec.Command(dir+"/rackd", "--name", name, "--bus", "nats://"+central.BusAddress, "--bus-token-file", filepath.Join(dir, "token"), "--key-file", filepath.Join(dir, "key"),
			"--data", filepath.Join(dir, name), "--observe", "", "--drivers", "redfish", "--bmc-networks", "127.0.0.0/8")
		cmd.Stdout, cmd.Stderr = &said, &said
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("rackd %s said:\n%s", name, said.String())
			}
		})
		rackds[name] = cmd
		await(t, "rackd "+name+" lives", func() bool { _, err := site.Alive.Get(t.Context(), bus.MemberKey("", name)); return err == nil })
	}
	o, err := operator.New(central.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	machine := operator.Machine{Name: "web1", Driver: "redfish", Interfaces: map[string]string{"console": "redfish-serial"},
		DriverInfo: consoleNode(b, map[string]any{"redfish_ssh_host_key": s.hostKey}).DriverInfo}
	var id string
	await(t, "the machine is enrolled", func() bool { id, err = o.Enrol(t.Context(), machine); return err == nil })
	at := central.Endpoint + "/v1/nodes/" + id + "/states/console"
	enable, err := http.NewRequestWithContext(t.Context(), http.MethodPut, at, strings.NewReader(`{"enabled":true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(enable)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		t.Fatalf("enable the console: %s %s", resp.Status, raw)
	}
	target := terminal.Target{Base: central.Endpoint, Node: id}
	await(t, "the console is open", func() bool {
		resp, err := http.Get(at)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return err == nil && bytes.Contains(raw, []byte(`"console_enabled":true`))
	})
	conn, err := terminal.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	session := &shown{}
	go session.follow(t.Context(), conn)
	session.await(t, `{"state":"open"}`)
	const crash = "Kernel panic - not syncing: Attempted to kill init!"
	k.say(crash)
	wrote := time.Now()
	session.await(t, crash)
	var kept consolecopy.Copy
	await(t, "the crash text is copied", func() bool {
		e, err := copies.Get(t.Context(), bus.NodeKey("", id))
		if err != nil {
			return false
		}
		if bytes.Contains(e.Value(), []byte("panic")) {
			t.Fatal("the copy on the bus is not sealed")
		}
		kept, err = bus.ReadConsole(e.Key(), e.Value(), key)
		return err == nil && bytes.Contains(kept.Text, []byte(crash))
	})
	if took := time.Since(wrote); took > copiedWithin {
		t.Errorf("the crash text was copied after %s", took)
	} else {
		t.Logf("the crash text was copied after %s by rackd %s", took.Round(time.Millisecond), kept.Rackd)
	}
	if err := rackds[kept.Rackd].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = rackds[kept.Rackd].Wait() // it was killed
	killed := time.Now()
	var log bytes.Buffer
	await(t, "the log is read from the next rackd", func() bool {
		log.Reset()
		return terminal.Log(t.Context(), target, &log) == nil
	})
	t.Logf("the next rackd answers %s after the kill", time.Since(killed).Round(time.Millisecond))
	if got := strings.Count(log.String(), crash); got != 1 {
		t.Errorf("the first log that the next rackd gives has the crash text %d times: %q", got, log.String())
	}
	session.await(t, `{"new_log":true}`)
	for end := time.Now().Add(time.Minute); ; { // until the next rackd's line is there
		k.say("after it\r\n")
		session.mu.Lock()
		text := session.text.String()
		session.mu.Unlock()
		if strings.Contains(text, "after it") {
			if got := strings.Count(text, crash); got != 1 {
				t.Errorf("the session shows the crash text %d times: %q", got, text)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the session shows %q", text)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := o.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	await(t, "the copy of a node that was deleted is gone", func() bool { _, err := copies.Get(t.Context(), bus.NodeKey("", id)); return err != nil })
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
