package tftp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// maxBlock keeps packets whole on Ethernet.
	maxBlock = 1428
	// A packet is sent again after timeout; a peer that answers none of 1 + retries is
	// given up.
	timeout = 2 * time.Second
	retries = 5
	// ahead is how many bytes of a file are read at once: a block is small, and its call of the system shows in the rate.
	ahead = 64 << 10
)

var errGivenUp = errors.New("the peer does not answer")

// transfer sends one file to one peer, from a port of its own.
type transfer struct {
	conn *net.UDPConn // connected: others' packets do not arrive
	// heard is told of each acknowledgement; an error ends the transfer.
	heard func() error
	in    [maxRequest]byte
}

// send sends content; n is what the peer has acknowledged of it. size is less than 0 where it
// is not known.
func (t *transfer) send(ctx context.Context, r request, content io.Reader, size int64, largest int) (n int64, err error) {
	block := usualBlock
	if !r.tsize || !r.octet {
		size = -1
	}
	if r.blksize > 0 {
		block = min(r.blksize, largest)
	}
	if r.blksize > 0 || size >= 0 {
		agreed := 0
		if r.blksize > 0 {
			agreed = block
		}
		if err := t.deliver(ctx, optionsPacket(agreed, size), 0); err != nil {
			return 0, err
		}
	}
	content, buf := bufio.NewReaderSize(content, ahead), make([]byte, 4+block)
	for number := uint16(1); ; number++ { // it begins at 0 again in large files
		m, err := io.ReadFull(content, buf[4:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return n, err
		}
		if err := t.deliver(ctx, dataPacket(buf, number, m), number); err != nil {
			return n, err
		}
		if n += int64(m); m < block {
			return n, nil
		}
	}
}

// deliver sends a packet until the peer acknowledges the block. Acknowledgements of other
// blocks are duplicates: they are not answered, which would double each packet from there on.
func (t *transfer) deliver(ctx context.Context, packet []byte, block uint16) error {
	for try := 0; try <= retries; try++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := t.conn.Write(packet); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			return t.why(ctx, err)
		}
		until := time.Now().Add(timeout)
		for {
			if err := t.conn.SetReadDeadline(until); err != nil {
				return t.why(ctx, err)
			}
			if ctx.Err() != nil { // its end may have set a deadline just before
				return context.Cause(ctx)
			}
			n, err := t.conn.Read(t.in[:])
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
			case errors.Is(err, syscall.ECONNREFUSED): // anyone can send that, too
				continue
			case err != nil:
				return t.why(ctx, err)
			default:
				got, failed, ok := parseAnswer(t.in[:n])
				if failed != "" {
					return errors.New(failed)
				}
				if ok && got == block {
					return t.heard()
				}
				continue
			}
			break
		}
	}
	return fmt.Errorf("%w: block %d was sent %d times", errGivenUp, block, retries+1)
}

// why is why the connection failed: it was closed to end the transfer, or by itself.
func (t *transfer) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
