package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func testNamespace(t *testing.T) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	name := fmt.Sprintf("iy-test-%d", os.Getpid())
	n, err := Create(t.Context(), name, netip.MustParsePrefix("10.77.0.1/24"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 { // the second time there is nothing to delete
			if err := n.Delete(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if n.Exists() {
			t.Error("namespace survived its deletion")
		}
	})
	return n
}

func TestCreateTwiceAndLook(t *testing.T) {
	n := testNamespace(t)
	if _, err := Create(t.Context(), n.Name(), netip.MustParsePrefix("10.77.0.1/24")); err != nil {
		t.Fatalf("second create: %v", err)
	}
	for range 2 {
		if err := n.AddTap(t.Context(), "tap-uefi-0"); err != nil {
			t.Fatal(err)
		}
	}
	out, err := n.Command(t.Context(), "ip", "-o", "address", "show", "dev", Bridge).Output()
	if err != nil || strings.Count(string(out), "inet 10.77.0.1/24") != 1 {
		t.Errorf("bridge address: %v %s", err, out)
	}
	for range 2 {
		if err := n.AddAddress(t.Context(), netip.MustParsePrefix("10.77.0.2/24")); err != nil {
			t.Fatal(err)
		}
	}
	out, err = n.Command(t.Context(), "ip", "-o", "address", "show", "dev", Bridge).Output()
	if err != nil || strings.Count(string(out), "inet 10.77.0.") != 2 || !strings.Contains(string(out), "inet 10.77.0.2/24") {
		t.Errorf("bridge addresses: %v %s", err, out)
	}
	out, err = n.Command(t.Context(), "ip", "-o", "link", "show", "master", Bridge).Output()
	if err != nil || !strings.Contains(string(out), "tap-uefi-0") {
		t.Errorf("bridge ports: %v %s", err, out)
	}
	if err := n.AddTap(t.Context(), "a-name-of-sixteen"); err == nil {
		t.Error("tap name of more than 15 bytes accepted")
	}
}

func TestSocketsLiveInside(t *testing.T) {
	n := testNamespace(t)
	l, err := n.Listen("tcp", "10.77.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	c, err := n.DialContext(t.Context(), "tcp", "10.77.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
	p, err := n.ListenPacket("udp", "10.77.0.1:69")
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := n.Listen("tcp", "localhost:0"); err == nil {
		t.Error("a name was accepted as address")
	}
	host, err := exec.Command("ip", "-o", "address").Output()
	if err != nil || strings.Contains(string(host), "10.77.0.1/") {
		t.Errorf("the host's own network shows the rack's address (%v)", err)
	}
}

func TestDeleteRefusesWhileInUse(t *testing.T) {
	n := testNamespace(t)
	cmd := n.Command(t.Context(), "cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "x")
	io.ReadFull(stdout, make([]byte, 1)) // cat runs, so ip has entered
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := n.Delete(ctx); !errors.Is(err, ErrInUse) {
		t.Errorf("delete with a process inside: %v, want ErrInUse", err)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "../x", "-n", "a b"} {
		if _, err := Open(name); err == nil {
			t.Errorf("name %q accepted", name)
		}
	}
}
