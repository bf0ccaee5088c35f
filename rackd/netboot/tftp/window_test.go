package tftp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// peer speaks TFTP by hand, so that it can lose blocks.
type peer struct {
	t    *testing.T
	conn *net.UDPConn
	to   *net.UDPAddr
}

func newPeer(t *testing.T, at net.Addr, options string) *peer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &peer{t: t, conn: conn, to: at.(*net.UDPAddr)}
	p.send([]byte("\x00\x01kernel\x00octet\x00" + options))
	return p
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.conn.WriteToUDP(b, p.to); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) ack(block uint16) { p.send(binary.BigEndian.AppendUint16([]byte{0, opAck}, block)) }

// next is the next packet, which has to come before the server's own time-out.
func (p *peer) next() (op, block uint16, body []byte) {
	p.t.Helper()
	if err := p.conn.SetReadDeadline(time.Now().Add(timeout - 200*time.Millisecond)); err != nil {
		p.t.Fatal(err)
	}
	b := make([]byte, 2048)
	n, from, err := p.conn.ReadFromUDP(b)
	if err != nil {
		p.t.Fatalf("no packet: %v", err)
	}
	p.to = from
	return binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), b[4:n]
}

// blocks reads data packets and requires that they have these numbers.
func (p *peer) blocks(from, to uint16) (all []byte) {
	p.t.Helper()
	for want := from; want <= to; want++ {
		op, block, body := p.next()
		if op != opData || block != want {
			p.t.Fatalf("packet %d with block %d, want block %d of %d to %d", op, block, want, from, to)
		}
		all = append(all, body...)
	}
	return all
}

func content(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// A peer that asks for windows gets several blocks at once, and from the first that it lacks again (RFC 7440), without a time-out. A
// duplicate of an acknowledgement doubles nothing.
func TestWindow(t *testing.T) {
	kernel := content(10*512 + 100)
	s, _ := newServer(t, kernel)
	at, _ := listen(t, s)
	p := newPeer(t, at, "windowsize\x004\x00")
	op, block, rest := p.next()
	if options := string(binary.BigEndian.AppendUint16(nil, block)) + string(rest); op != opOAck || options != "windowsize\x004\x00" {
		t.Fatalf("packet %d: %q", op, options)
	}
	p.ack(0)
	got := p.blocks(1, 4)
	p.ack(2) // 3 was lost
	got = append(got[:2*512], p.blocks(3, 6)...)
	p.ack(6)
	p.ack(6) // a duplicate
	got = append(got, p.blocks(7, 10)...)
	p.ack(10)
	last := p.blocks(11, 11)
	p.ack(10) // of several the first would be lost; of the last one it is a duplicate
	p.ack(11)
	if got = append(got, last...); !bytes.Equal(got, kernel) {
		t.Errorf("%d bytes came, of a file of %d, or others", len(got), len(kernel))
	}
}

// The first block of a window that was lost comes again before the time-out.
func TestFirstOfAWindowIsLost(t *testing.T) {
	s, _ := newServer(t, content(8*512))
	at, _ := listen(t, s)
	p := newPeer(t, at, "windowsize\x003\x00")
	p.next()
	p.ack(0)
	p.blocks(1, 3)
	p.ack(3)
	p.blocks(4, 6)
	p.ack(3) // 4 was lost
	p.blocks(4, 6)
	p.ack(6)
	p.blocks(7, 9)
	p.ack(9)
}

// A window is bounded, and a peer that asks for none acknowledges each block.
func TestWindowsAreBounded(t *testing.T) {
	s, _ := newServer(t, content(40*512))
	at, _ := listen(t, s)
	p := newPeer(t, at, "windowsize\x0065535\x00")
	if _, block, rest := p.next(); string(binary.BigEndian.AppendUint16(nil, block))+string(rest) != fmt.Sprintf("windowsize\x00%d\x00", maxWindow) {
		t.Errorf("the server agrees to %q", rest)
	}
	p.ack(0)
	p.blocks(1, maxWindow)
	p.ack(maxWindow)
	p.blocks(maxWindow+1, 2*maxWindow)
	single := newPeer(t, at, "")
	single.blocks(1, 1)
	if err := single.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := single.conn.ReadFromUDP(make([]byte, 2048)); err == nil {
		t.Errorf("a second packet of %d bytes came before the first was acknowledged", n)
	}
}

// A file of more blocks than there are numbers comes whole to a foreign client, which knows no windows.
func TestNumbersBeginAgain(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("NOT RUN: needs curl")
	}
	kernel := content(70_000 * 512)
	s, _ := newServer(t, kernel)
	at, _ := listen(t, s)
	to := filepath.Join(t.TempDir(), "kernel")
	if out, err := exec.Command("curl", "-sS", "--tftp-blksize", "512", "-o", to, "tftp://"+at.String()+"/kernel").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, strings.TrimSpace(string(out)))
	}
	if body, err := os.ReadFile(to); err != nil || !bytes.Equal(body, kernel) {
		t.Errorf("curl has %d bytes of %d, or others: %v", len(body), len(kernel), err)
	}
}
