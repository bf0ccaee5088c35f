package rfb

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// pipe is a stream of which a test has the other end.
type pipe struct{ net.Conn }

func (p pipe) Write(b []byte) error      { _, err := p.Conn.Write(b); return err }
func (pipe) Break() error                { return driver.ErrUnsupported }
func (pipe) Alive(context.Context) error { return nil }
func (p pipe) Close()                    { p.Conn.Close() }

// A greeting passes as it is, in however many pieces it comes; what follows it too.
func TestGreeting(t *testing.T) {
	for _, version := range []string{"003.003", "003.008", "003.889"} {
		near, far := net.Pipe()
		text := "RFB " + version + "\n" + "\x01\x01 and more"
		go func() {
			for i := range text {
				_, _ = io.WriteString(far, text[i:i+1])
			}
			far.Close()
		}()
		s, err := Greeted(t.Context(), pipe{near})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if all, err := io.ReadAll(s); err != nil || string(all) != text {
			t.Errorf("%q, %v", all, err)
		}
		s.Close()
	}
}

// What is no greeting is refused with its first words, and closed.
func TestNoGreeting(t *testing.T) {
	for text, says := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "HTTP/1.1 400 Bad Request",
		"SSH-2.0-dropbear\r\n":             "SSH-2.0-dropbear",
		"RFB 004.001\n":                    "RFB 004.001",
		"RFB 003.0080":                     "RFB 003.0080",
		"RFB 0":                            "RFB 0",
		"":                                 "ends at once",
		"\x00\xff\x16":                     `\x00?\x16`,
	} {
		near, far := net.Pipe()
		go func() {
			_, _ = io.WriteString(far, text)
			far.Close()
		}()
		_, err := Greeted(t.Context(), pipe{near})
		if err == nil || !strings.Contains(said(err), says) {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := near.Write([]byte("x")); err == nil {
			t.Errorf("%q: the stream is open", text)
		}
	}
}

// said is what an error tells, also of what a BMC said.
func said(err error) string {
	if f, is := errors.AsType[*bmc.Failure](err); is {
		return f.Said
	}
	return err.Error()
}

// A server that is silent, or that floods without a greeting, holds up no caller.
func TestSilenceAndFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := Greeted(ctx, pipe{near})
		lost, is := errors.AsType[*bmc.Lost](err)
		if took := time.Since(began); took != time.Minute || !is || lost.Unknown {
			t.Errorf("after %s: %v", took, err)
		}
	})
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < 1<<30 && err == nil; {
			var sent int
			sent, err = far.Write(make([]byte, 64<<10))
			n += sent
		}
		ended <- err
	}()
	if _, err := Greeted(t.Context(), pipe{near}); err == nil {
		t.Error("a flood of zeros is a greeting")
	}
	if err := <-ended; err == nil {
		t.Error("all of a gigabyte was read")
	}
}
