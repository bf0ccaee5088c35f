// Package rfb looks at how a graphical console begins. RFB (RFC 6143) is what VNC speaks: a server greets with its version first.
//
// It may import rackd/driver/bmc and rackd/driver/serialline. Invariants:
//   - What does not begin with the greeting of RFB 3 is refused, with its first words.
//   - After the greeting nothing is looked at: what is shown and typed passes as it is.
package rfb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
)

const (
	// begin is how greetings begin: RFB 003.003, 003.007 and 003.008 are the standard's, and some servers tell other ones.
	begin = "RFB 003."
	// length is that of a greeting.
	length = 12
	// moreWithin is how long a server that has not greeted has for the rest of its words, which the error quotes.
	moreWithin = 200 * time.Millisecond
	// longest bounds the words that an error quotes.
	longest = 120
)

// Greeted waits for the greeting of a server that has just been dialled, as long as ctx allows. It returns a stream that begins with
// the greeting, and owns s from here on, also when it fails. Errors are for bmc.Attempt.
func Greeted(ctx context.Context, s serialline.Stream) (serialline.Stream, error) {
	type read struct {
		text []byte
		err  error
	}
	first, more := make(chan read, 1), make(chan read, 1)
	go func() { // Close ends it
		text := make([]byte, 0, length)
		var err error
		for len(text) < length && mayGreet(text) && err == nil {
			var n int
			n, err = s.Read(text[len(text):length])
			text = text[:len(text)+n]
		}
		first <- read{text, err}
		if err == nil && !greets(text) {
			rest := make([]byte, longest)
			n, err := s.Read(rest)
			more <- read{rest[:n], err}
		}
	}()
	var got read
	select {
	case got = <-first:
	case <-ctx.Done():
		s.Close()
		return nil, &bmc.Lost{Err: fmt.Errorf("its graphical console is silent: %w", context.Cause(ctx))}
	}
	switch {
	case greets(got.text):
		return &greeted{Stream: s, rest: got.text}, nil
	case got.err == nil:
		wait := time.NewTimer(moreWithin)
		defer wait.Stop()
		select {
		case rest := <-more:
			got.text = append(got.text, rest.text...)
		case <-wait.C:
		case <-ctx.Done():
		}
	case len(got.text) == 0:
		s.Close()
		if errors.Is(got.err, io.EOF) {
			got.err = errors.New("its graphical console ends at once: its server of pictures may not run")
		}
		return nil, &bmc.Lost{Err: got.err}
	}
	s.Close()
	return nil, &bmc.Failure{Class: bmc.Unsupported, Said: fmt.Sprintf("with %q in place of a greeting of RFB", strings.ToValidUTF8(string(got.text), "?"))}
}

// mayGreet reports whether a text may be the beginning of a greeting.
func mayGreet(text []byte) bool {
	n := min(len(text), len(begin))
	return string(text[:n]) == begin[:n]
}

// greets reports whether a text is a greeting.
func greets(text []byte) bool {
	return len(text) == length && mayGreet(text) && text[length-1] == '\n'
}

// greeted is a stream whose greeting has been read.
type greeted struct {
	serialline.Stream
	rest []byte // of the greeting
}

// Read implements serialline.Stream.
func (g *greeted) Read(p []byte) (int, error) {
	if len(g.rest) > 0 {
		n := copy(p, g.rest)
		g.rest = g.rest[n:]
		return n, nil
	}
	return g.Stream.Read(p)
}
