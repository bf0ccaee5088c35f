package scenario

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

const rescuePassword = "open sesame 'n' all"

var letsIn = regexp.MustCompile(`SSH at ([0-9.]+):22.*host key (SHA256:\S+)`)

// A deployed machine is rescued, its user logs in by OpenSSH and mounts the instance's disk, and after the unrescue the instance runs
// again. make test has that of bios-0 by IPMI, as its one deploy by that; make hardware one of each firmware by Redfish, too.
func TestRescue(t *testing.T) {
	names := []string{"bios-0 by IPMI"}
	if os.Getenv("IRONYARD_HARDWARE") != "" {
		names = append(names, "bios-0", "uefi-0")
	}
	for _, test := range names {
		t.Run(test, func(t *testing.T) {
			name, _, ipmi := strings.Cut(test, " ")
			ctx := limit(t, 12*time.Minute)
			o := theRack.Operator
			id := enrolled(ctx, t, name, func(m *operator.Machine) {
				if ipmi {
					byIPMI(t, m)
				}
				m.Interfaces = map[string]string{"rescue": "agent"}
			})
			if err := o.MakeAvailable(ctx, id); err != nil {
				t.Fatal(err)
			}
			if err := o.SetImage(ctx, id, qcow2()); err != nil {
				t.Fatal(err)
			}
			deployed(ctx, t, id, name)
			rescuedAndBack(ctx, t, id, name)
			if err := o.Ask(ctx, id, "deleted", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(ctx, id, provision.Available); err != nil {
				t.Fatal(err)
			}
			if err := o.WaitPower(ctx, id, "power off"); err != nil {
				t.Error(err)
			}
			if theRack.Serving.Machines[name].On() {
				t.Error("the undeployed machine is on")
			}
		})
	}
}

// rescuedAndBack rescues a machine, logs in to it, and waits for the instance that runs after the unrescue. It returns how long it took
// from the request until people are let in.
func rescuedAndBack(ctx context.Context, t *testing.T, id, name string) (took time.Duration) {
	t.Helper()
	o := theRack.Operator
	console, began := consoleFromNow(t, name), time.Now()
	if err := o.Provision(ctx, id, map[string]any{"target": "rescue", "rescue_password": rescuePassword}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Rescue); err != nil {
		t.Fatal(err)
	}
	took = time.Since(began)
	t.Logf("rescued %.1f s after the request", took.Seconds())
	loggedIn(ctx, t, id)
	if _, err := console.Wait(ctx, regexp.MustCompile(`login: `)); err != nil {
		t.Errorf("the console asks for no login: %v", err)
	}
	unrescued(ctx, t, id, name)
	return took
}

// loggedIn logs in to the rescued machine as a person does who reads the node's history.
func loggedIn(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	var told []string
	events.wait(ctx, t, "line of where to log in", func(e work.Event) bool {
		for _, l := range e.Lines() {
			if e.Node == id && l.Phase == "rescue" {
				told = letsIn.FindStringSubmatch(l.Detail)
			}
		}
		return told != nil
	})
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(env []string, program string, args ...string) (string, error) {
		cmd := ns.Command(ctx, program, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	known, err := run(nil, "ssh-keyscan", "-T", "20", told[1])
	if err != nil {
		t.Fatalf("ssh-keyscan: %v: %s", err, known)
	}
	var keys []string
	for line := range strings.Lines(known) {
		if !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	ask := filepath.Join(dir, "ask")
	for file, text := range map[string]string{filepath.Join(dir, "known"): strings.Join(keys, ""), ask: "#!/bin/sh\ncat <<'END'\n" + rescuePassword + "\nEND\n",
		ask + "-wrong": "#!/bin/sh\necho guess\n"} {
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := exec.CommandContext(ctx, "ssh-keygen", "-l", "-f", filepath.Join(dir, "known")).CombinedOutput()
	if err != nil || !strings.Contains(string(shown), told[2]) {
		t.Fatalf("the machine shows the host key %s (%v), and its history says %s", shown, err, told[2])
	}
	login := func(ask, command string) (string, error) {
		return run([]string{"SSH_ASKPASS=" + ask, "SSH_ASKPASS_REQUIRE=force", "SSH_AUTH_SOCK="}, "ssh", "-F", "none", "-o", "UserKnownHostsFile="+filepath.Join(dir, "known"),
			"-o", "StrictHostKeyChecking=yes", "-o", "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1", "-tt", "rescue@"+told[1], command)
	}
	out, err := login(ask, "whoami; tty; for p in /dev/vda[0-9]*; do mount -o ro $p /mnt && ls /mnt && umount /mnt; done; true")
	t.Logf("the shell said:\n%s", out)
	if err != nil || !strings.Contains(out, "rescue") || !strings.Contains(out, "/dev/pts/") || !strings.Contains(strings.ToUpper(out), "EFI") {
		t.Errorf("the login ended with %v; want user, terminal and the files of a partition", err)
	}
	if out, err := login(ask+"-wrong", "whoami"); err == nil || !strings.Contains(out, "Permission denied") {
		t.Errorf("a wrong password: %v, %s", err, out)
	}
	n, err := theRack.Operator.Show(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if shown, _ := n.InstanceInfo["rescue_password"].(string); strings.Contains(shown, rescuePassword) {
		t.Error("the API shows the password")
	}
}

// unrescued waits for the instance that runs again.
func unrescued(ctx context.Context, t *testing.T, id, name string) {
	t.Helper()
	console := consoleFromNow(t, name)
	began := time.Now()
	if err := theRack.Operator.Ask(ctx, id, "unrescue", nil); err != nil {
		t.Fatal(err)
	}
	n, err := theRack.Operator.Wait(ctx, id, provision.Active)
	if err != nil {
		t.Fatal(err)
	}
	if _, there := n.InstanceInfo["rescue_password"]; there {
		t.Error("the password outlives the rescue")
	}
	if _, err := console.Wait(ctx, marker); err != nil {
		t.Fatalf("no instance after the unrescue: %v", err)
	}
	t.Logf("the instance runs %.1f s after the request", time.Since(began).Seconds())
}
