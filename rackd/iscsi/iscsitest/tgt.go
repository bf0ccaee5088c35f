// Package iscsitest is a foreign iSCSI target for tests: tgtd of Debian's package tgt, on loopback.
package iscsitest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Tgt is a running tgtd.
type Tgt struct {
	// Address of the portal.
	Address string

	t       testing.TB
	cmd     *exec.Cmd
	control string
}

// controls tells the daemons of one process apart.
var controls atomic.Int64

// Start serves a file as LUN 1 of a target until the test ends. accounts are pairs of name and secret: what initiators show, then what the
// target shows. Without accounts anybody may log in.
func Start(t testing.TB, file, iqn string, accounts ...[2]string) *Tgt {
	t.Helper()
	return StartBlocks(t, file, 512, iqn, accounts...)
}

// StartBlocks is Start for a disk with logical blocks of that many bytes.
func StartBlocks(t testing.TB, file string, block int, iqn string, accounts ...[2]string) *Tgt {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &Tgt{t: t, Address: l.Addr().String(), control: fmt.Sprint((int64(os.Getpid())*7 + controls.Add(1)) % 32000)}
	l.Close()
	g.cmd = exec.Command("tgtd", "-f", "-C", g.control, "--iscsi", "portal="+g.Address)
	if err := g.cmd.Start(); err != nil {
		t.Fatalf("%v (Debian's package tgt)", err)
	}
	t.Cleanup(g.Kill)
	g.admin("--op show --mode sys")
	g.admin("--op new --mode target --tid 1 -T " + iqn)
	g.admin("--op new --mode logicalunit --tid 1 --lun 1 -b " + file + " --blocksize " + fmt.Sprint(block))
	g.admin("--op bind --mode target --tid 1 -I ALL")
	for i, a := range accounts {
		g.admin("--op new --mode account --user " + a[0] + " --password " + a[1])
		bind := "--op bind --mode account --tid 1 --user " + a[0]
		if i == 1 {
			bind += " --outgoing"
		}
		g.admin(bind)
	}
	return g
}

// Kill ends tgtd in the middle of whatever it does. It may be called again.
func (g *Tgt) Kill() {
	if g.cmd.ProcessState != nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	for _, suffix := range []string{"", ".lock"} {
		_ = os.Remove("/var/run/tgtd/socket." + g.control + suffix)
	}
}

// Processor is the processor time that tgtd has used so far.
func (g *Tgt) Processor() time.Duration {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.cmd.Process.Pid))
	if err != nil {
		g.t.Fatal(err)
	}
	// Behind the name, which is in brackets: the 12th and the 13th field are ticks of a hundredth of a second (proc(5)).
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			g.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func (g *Tgt) admin(args string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, "tgtadm", append([]string{"-C", g.control, "--lld", "iscsi"}, strings.Fields(args)...)...).CombinedOutput()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			g.t.Fatalf("tgtadm %s: %v: %s", strings.Fields(args)[1], err, out)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
