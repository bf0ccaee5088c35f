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
	// lostAfter is how long the first of several blocks may still be on its way, after the peer has said that it lacks it.
	lostAfter = 100 * time.Millisecond
	// maxWindow bounds the blocks that are on their way to one peer, and so the memory that it costs. EDK2 asks for 4.
	maxWindow = 16
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
	block, window := usualBlock, min(r.window, maxWindow)
	if !r.tsize || !r.octet {
		size = -1
	}
	if r.blksize > 0 {
		block = min(r.blksize, largest)
	}
	if r.blksize > 0 || window > 0 || size >= 0 {
		agreed := 0
		if r.blksize > 0 {
			agreed = block
		}
		if _, err := t.deliver(ctx, [][]byte{optionsPacket(agreed, window, size)}, 0); err != nil {
			return 0, err
		}
	}
	content = bufio.NewReaderSize(content, ahead)
	w := &blocks{content: content, size: block, most: max(window, 1), first: 1}
	for {
		if err := w.fill(); err != nil {
			return n, err
		}
		got, err := t.deliver(ctx, w.packets, w.first)
		if err != nil {
			return n, err
		}
		n += w.drop(got)
		if len(w.packets) == 0 && w.ended {
			return n, nil
		}
	}
}

// blocks are those of a file that are on their way. Numbers begin at 0 again in large files.
type blocks struct {
	content io.Reader
	size    int // of a block
	most    int // that are on their way at once
	first   uint16
	packets [][]byte // from first on
	spare   [][]byte
	ended   bool // the last block of the file is among them, or was
}

// fill reads blocks until as many as may be are on their way.
func (b *blocks) fill() error {
	for len(b.packets) < b.most && !b.ended {
		buf := b.buffer()
		m, err := io.ReadFull(b.content, buf[4:4+b.size])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		b.packets = append(b.packets, dataPacket(buf, b.first+uint16(len(b.packets)), m))
		b.ended = m < b.size
	}
	return nil
}

// buffer is room for a packet: a former one's where there is one.
func (b *blocks) buffer() []byte {
	last := len(b.spare) - 1
	if last < 0 {
		return make([]byte, 4+b.size)
	}
	buf := b.spare[last]
	b.spare = b.spare[:last]
	return buf
}

// drop forgets the first blocks, which the peer has, and returns how many bytes of the file they hold.
func (b *blocks) drop(count int) (n int64) {
	for _, p := range b.packets[:count] {
		n += int64(len(p) - 4)
		b.spare = append(b.spare, p[:cap(p)])
	}
	b.packets = append(b.packets[:0], b.packets[count:]...)
	b.first += uint16(count)
	return n
}

// deliver sends packets, the first of which is a block's, until the peer acknowledges at least that one. It returns how many it has: a
// peer that lost one on the way acknowledges those before it. Acknowledgements of other blocks are duplicates: they are not answered,
// which would double each packet from there on.
func (t *transfer) deliver(ctx context.Context, packets [][]byte, first uint16) (got int, err error) {
	for try := 0; try <= retries; try++ {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		for _, p := range packets {
			if _, err := t.conn.Write(p); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				return 0, t.why(ctx, err)
			}
		}
		if got, err = t.acknowledged(ctx, len(packets), first, try == 0); err != nil || got > 0 {
			return got, err
		}
	}
	return 0, fmt.Errorf("%w: block %d was sent %d times", errGivenUp, first, retries+1)
}

// acknowledged waits for the acknowledgement of one of so many blocks; got is 0 when none came in time. The block before acknowledged again
// is a duplicate, or says that the first of several was lost: where heed is true the wait is a short one from there on.
func (t *transfer) acknowledged(ctx context.Context, count int, first uint16, heed bool) (got int, err error) {
	until := time.Now().Add(timeout)
	for {
		if err := t.conn.SetReadDeadline(until); err != nil {
			return 0, t.why(ctx, err)
		}
		if ctx.Err() != nil { // its end may have set a deadline just before
			return 0, context.Cause(ctx)
		}
		n, err := t.conn.Read(t.in[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, nil
		case errors.Is(err, syscall.ECONNREFUSED): // anyone can send that, too
			continue
		case err != nil:
			return 0, t.why(ctx, err)
		}
		block, failed, ok := parseAnswer(t.in[:n])
		if failed != "" {
			return 0, errors.New(failed)
		}
		switch has := int(block-first) + 1; {
		case !ok:
		case has <= count:
			return has, t.heard()
		case block == first-1 && heed && count > 1:
			until, heed = time.Now().Add(lostAfter), false
		}
	}
}

// why is why the connection failed: it was closed to end the transfer, or by itself.
func (t *transfer) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
