package closedport

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// A port that is kept refuses what is sent to it, as a closed one does. It is given to no other socket until its own is closed.
func TestKeep(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ended := make(chan error, 1)
	go func() {
		_, _, err := conn.ReadFromUDP(make([]byte, 8))
		ended <- err
	}()
	at := conn.LocalAddr().(*net.UDPAddr)
	Keep(t, conn)
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who read has got: %v", err)
	}
	client, err := net.DialUDP("udp", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		if _, err := client.Write([]byte("asked")); err != nil {
			t.Fatal(err)
		}
		if err := client.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(make([]byte, 8)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("what was sent ended with: %v; want that it is refused", err)
		}
	}
	if other, err := net.ListenUDP("udp", at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another socket at %v: %v; want that the port is taken", at, err)
		if err == nil {
			other.Close()
		}
	}
	conn.Close()
	other, err := net.ListenUDP("udp", at)
	if err != nil {
		t.Fatalf("once its socket was closed: %v", err)
	}
	other.Close()
}
