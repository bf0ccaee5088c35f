package iscsitarget

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// kernel is a target that counts who reaches it.
func kernel(t *testing.T) (at string, reached func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String(), func() int { mu.Lock(); defer mu.Unlock(); return len(conns) }
}

// An exported disk is reached from any address, where the operator has named none. Hosts of the network that are not the initiator do
// not get to the kernel's target, which takes one login at a time; and however many connections some of them hold, the initiator's
// own finds a place.
func TestStrangersReachNoTarget(t *testing.T) {
	inside, reached := kernel(t)
	any4 := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	g, err := open(t.Context(), 0, any4, them, inside, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	for host := range 4 {
		for range 2 * mostOfAddress { // which say nothing
			dial(t, g, fmt.Sprintf("127.0.1.%d", host+1))
		}
	}
	scsi := loginOf(them)
	scsi[0] = 0x01 // a command before a login
	long := loginOf(them)
	long[5] = 0xff
	for name, words := range map[string][]byte{"another name": loginOf("iqn.2026-11.dev.ironyard:thief"), "its beginning": loginOf(them + "1"), "a command": scsi, "a long login": long,
		"a web browser": bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 40), "zeros": make([]byte, 4096)} {
		c := dial(t, g, "127.0.2.1")
		if _, err := c.Write(words); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("%s is not turned away: %v", name, err)
		}
	}
	g.mu.Lock()
	if g.all > 4*mostOfAddress {
		t.Errorf("%d connections of four hosts are held", g.all)
	}
	g.mu.Unlock()
	if n := reached(); n > 0 {
		t.Errorf("%d strangers have reached the target", n)
	}
	c := dial(t, g, "127.0.0.2")
	if _, err := c.Write(loginOf(them)); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(20 * time.Second); reached() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the initiator does not get through")
		}
	}
}

func isTimeout(err error) bool {
	late, is := err.(net.Error)
	return is && late.Timeout()
}
