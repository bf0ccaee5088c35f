package dhcp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// An interface goes down and comes back, and then it is made again under its name, as a bridge or a VLAN is whose configuration is loaded
// again. ISC's client gets its address each time.
func TestInterfaceThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not run: network namespaces want root")
	}
	if _, err := exec.LookPath("dhclient"); err != nil {
		t.Skip("not run: dhclient is not installed")
	}
	near := os.Getenv("DHCP_NEAR")
	if near == "" {
		rack := fmt.Sprintf("dhcp-rack-%d", os.Getpid())
		near = fmt.Sprintf("dhcp-near-%d", os.Getpid())
		for _, ns := range []string{rack, near} {
			run(t, "ip", "netns", "add", ns)
			t.Cleanup(func() { run(t, "ip", "netns", "del", ns) })
			run(t, "ip", "-n", ns, "link", "set", "lo", "up")
		}
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", rack, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "DHCP_NEAR="+near)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		} else if testing.Verbose() {
			t.Logf("%s", out)
		}
		return
	}
	made := func() {
		t.Helper()
		run(t, "ip", "link", "add", "wire", "type", "veth", "peer", "name", "card", "address", known, "netns", near)
		run(t, "ip", "addr", "add", "10.77.0.2/24", "dev", "wire")
		run(t, "ip", "link", "set", "wire", "up")
		run(t, "ip", "-n", near, "link", "set", "card", "up")
	}
	made()
	var said lockedText
	s := newServer(t, func(c *Config) {
		c.ServerIP, c.From, c.To = netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.100"), netip.MustParseAddr("10.77.0.110")
		c.Now, c.Log = nil, slog.New(slog.NewTextHandler(&said, nil))
	})
	conn, err := Listen("wire", s.cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, conn) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$reason $new_ip_address\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	asks := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		client := exec.CommandContext(ctx, "ip", "netns", "exec", near, "dhclient", "-4", "-1", "-d", "-sf", script, "-lf", filepath.Join(dir, "leases-"+what), "-pf", filepath.Join(dir, "pid"), "card")
		var out lockedText
		bound := make(chan struct{})
		out.awaits, out.said = "BOUND 10.77.0.1", bound
		client.Stdout, client.Stderr = &out, &out
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() { client.Wait(); close(gone) }()
		select {
		case <-bound:
		case <-gone:
			t.Errorf("%s, dhclient gets no address: %s", what, out.String())
		}
		cancel()
		<-gone
	}
	asks("first")
	run(t, "ip", "link", "set", "wire", "down")
	run(t, "ip", "link", "set", "wire", "up")
	asks("down-and-up")
	run(t, "ip", "link", "del", "wire")
	made()
	asks("made-again")
	if !strings.Contains(said.String(), "was made again") {
		t.Error("the log does not tell of it")
	}
}

// lockedText is what a program says. said is closed once it has said what is awaited.
type lockedText struct {
	mu     sync.Mutex
	b      strings.Builder
	awaits string
	said   chan struct{}
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.b.Write(p)
	if l.said != nil && strings.Contains(l.b.String(), l.awaits) {
		close(l.said)
		l.said = nil
	}
	return n, err
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
