package iscsideploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ironyard/ironyard/protocol/sectors"
	"github.com/ironyard/ironyard/rackd/iscsi"
)

const (
	// headSize is how much of the image's start is written at the end.
	headSize = 1 << 20
	// depth is how many writes are under way, and zeroDepth how many commands that make zeros.
	depth     = 16
	zeroDepth = 4
	// zeroRun is how many zeros, in bytes, are noted before they are made.
	zeroRun = 32 << 20
	// flushEvery is after how much of the image, in bytes, the disk is asked to bring to the medium what it has taken.
	flushEvery = 64 << 20
)

// transfer is one image on its way. It belongs to the step's goroutine, or to the timer that ends it.
type transfer struct {
	session *iscsi.Session
	disk    *iscsi.Disk
	done    func()
	src     source
	end     *time.Timer // closes it when the step does not go on
	command string      // id of the agent's command that exported the disk

	// base is where on the disk the image begins, and room what it may fill.
	base, room int64
	// partition: the image is a partition's, and says nothing of the disk's sectors.
	partition bool

	image  string // its ID
	device string // the agent's name of the disk
	at     string // the target's address
	off    int64  // of the image, read so far
	resume int64  // what is on the disk from an earlier session
	head   []byte
	fit    bool // head was judged
	zero   struct{ off, n int64 }
	// zeroing are the zeros that are being made, the first that were begun first.
	zeroing []*iscsi.Pending
	ring    []slot
	next    int
	begun   time.Time
	saved   time.Time // when the progress was last flushed and kept
	flushs  int64     // how far it was then
	// flushing runs beside the writes; nil: none. It was begun when asked bytes of the image were read.
	flushing *iscsi.Pending
	asked    int64

	samples samples
	read    bool // the image has been read to its end, and all of it was sent
	checked int  // samples that were read back
}

// slot is a buffer and the write that uses it.
type slot struct {
	buf []byte
	on  *iscsi.Pending
}

func newTransfer(s *iscsi.Session, d *iscsi.Disk, src source) *transfer {
	t := &transfer{session: s, disk: d, room: d.Size(), src: src, begun: time.Now(), saved: time.Now(), samples: newSamples(d.Size()), ring: make([]slot, depth)}
	for i := range t.ring {
		t.ring[i].buf = make([]byte, iscsi.Largest)
	}
	return t
}

// within has the image written to a range of the disk, which is its root partition.
func (t *transfer) within(at, size int64) error {
	if at <= 0 || size <= 0 || at%t.disk.Block() != 0 || size%t.disk.Block() != 0 || size > t.disk.Size() || at > t.disk.Size()-size {
		return fmt.Errorf("the agent says that the root partition has %d bytes from %d on, and the disk that it exports has %d bytes in blocks of %d", size, at, t.disk.Size(), t.disk.Block())
	}
	t.base, t.room, t.partition = at, size, true
	return nil
}

func (t *transfer) close() {
	t.session.Close()
	t.src.close()
	t.done()
}

// differentError says that a disk does not hold what was written to it, although it reported no error.
type differentError struct {
	device string
	off, n int64
}

func (e *differentError) Error() string {
	return fmt.Sprintf("disk %s does not hold what was written: %d bytes at %d read back differently; the disk, its cable or its controller is faulty", e.device, e.n, e.off)
}

// broke says of an error that ended the session which write it ended, and how far that was.
func (t *transfer) broke(err error) error {
	far := fmt.Sprintf("%d MB", t.off/1e6)
	if size := t.src.size(); size > 0 {
		far = fmt.Sprintf("%d of %d MB", t.off/1e6, size/1e6)
	}
	return fmt.Errorf("the write to disk %s, which the agent exports at %s, broke off after %s: %w", t.device, t.at, far, err)
}

// step brings the transfer forward until a time, or to its end; before the head is written.
func (t *transfer) step(ctx context.Context, until time.Time, fence func() error) (ended bool, err error) {
	for !t.read && time.Now().Before(until) {
		if err := fence(); err != nil {
			return false, err
		}
		if err := t.piece(ctx); err != nil {
			return false, err
		}
	}
	if !t.read {
		return false, nil
	}
	for t.checked < len(t.samples.kept) {
		if time.Now().After(until) {
			return false, nil
		}
		next := t.samples.kept[t.checked:]
		next = next[:min(len(next), depth)]
		if err := t.compare(ctx, next); err != nil {
			return false, err
		}
		t.checked += len(next)
	}
	return true, nil
}

// padded is n rounded up to whole blocks of the disk.
func (t *transfer) padded(n int64) int64 {
	b := t.disk.Block()
	return (n + b - 1) / b * b
}

// compare reads samples back, all at once. Those of the image's start are left to seal.
func (t *transfer) compare(ctx context.Context, of []sample) error {
	var reads []*iscsi.Pending
	got := make([][]byte, len(of))
	for i, k := range of {
		if k.n == 0 || k.off < headSize {
			continue
		}
		got[i] = make([]byte, t.padded(k.n))
		on, err := t.disk.BeginRead(got[i], t.base+k.off)
		if err != nil {
			return fmt.Errorf("reading disk %s back: %w", t.device, err)
		}
		reads = append(reads, on)
	}
	if err := all(ctx, reads); err != nil {
		return fmt.Errorf("reading disk %s back: %w", t.device, err)
	}
	for i, k := range of {
		if got[i] != nil && !t.samples.fits(k, got[i]) {
			return &differentError{t.device, t.base + k.off, k.n}
		}
	}
	return nil
}

// all waits for commands that were begun, and returns the first error.
func all(ctx context.Context, begun []*iscsi.Pending) error {
	for _, on := range begun {
		if err := on.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// piece takes the next piece of the image and sends it.
func (t *transfer) piece(ctx context.Context) error {
	s := &t.ring[t.next]
	if err := t.settled(ctx, s); err != nil {
		return err
	}
	n, zero, err := t.src.next(s.buf)
	if errors.Is(err, io.EOF) {
		return t.ends(ctx)
	}
	if err != nil {
		return t.judged(err)
	}
	if err := t.paced(ctx); err != nil {
		return err
	}
	off, size := t.off, max(int64(n), zero)
	if off+size > t.room && t.partition {
		return fmt.Errorf("give a larger root_gb: Root partition is too small for requested image. Image virtual size: more than %d MB, Root size: %d MB", t.room>>20, t.room>>20)
	}
	if off+size > t.room {
		return fmt.Errorf("disk %s is too small: it has %d bytes, the image more than that; choose another disk (root device hints) or a smaller image", t.device, t.room)
	}
	t.off += size
	if zero > 0 {
		t.samples.note(nil, off, zero)
		if k := min(zero, max(0, headSize-off)); k > 0 {
			t.head = append(t.head, make([]byte, k)...)
			off, zero = off+k, zero-k
		}
		if err := t.fits(); err != nil {
			return err
		}
		return t.zeros(ctx, off, zero)
	}
	t.samples.note(s.buf[:n], off, int64(n))
	if off < headSize { // pieces divide it
		t.head = append(t.head, s.buf[:n]...)
		return t.fits()
	}
	if off+int64(n) <= t.resume {
		return nil
	}
	if err := t.makeZeros(ctx); err != nil {
		return err
	}
	whole := s.buf[:t.padded(int64(n))]
	clear(whole[n:])
	if s.on, err = t.disk.Write(whole, t.base+off); err != nil {
		return err
	}
	t.next = (t.next + 1) % len(t.ring)
	return nil
}

// fits refuses an image for a disk of other sectors, once its start is known and before anything is written. Where the image's size is
// not known yet, its MBR is judged by ends.
func (t *transfer) fits() error {
	if t.fit || len(t.head) < headSize {
		return nil
	}
	t.fit = true
	return t.fitsIn(t.src.size())
}

// fitsIn does so for an image of that size.
func (t *transfer) fitsIn(size int64) error {
	if t.partition {
		return nil
	}
	if err := sectors.Fit(bytes.NewReader(t.head), size, t.device, t.disk.Block()); err != nil {
		return fmt.Errorf("image %s: %w", t.image, err)
	}
	return nil
}

// settled waits until a slot is free.
func (t *transfer) settled(ctx context.Context, s *slot) error {
	if s.on == nil {
		return nil
	}
	on := s.on
	s.on = nil
	if err := on.Wait(ctx); err != nil {
		return fmt.Errorf("writing to disk %s: %w", t.device, err)
	}
	return nil
}

// paced has the medium work while the image is sent: what a target keeps in memory would wait for the end, and be written alone then. It
// waits for the flush before, so that no target keeps much.
func (t *transfer) paced(ctx context.Context) error {
	if t.off-max(t.asked, t.resume) < flushEvery {
		return nil
	}
	if err := t.flushed(ctx); err != nil {
		return err
	}
	t.asked, t.flushing = t.off, t.disk.BeginFlush()
	return nil
}

// flushed waits for the flush that runs, if there is one.
func (t *transfer) flushed(ctx context.Context) error {
	if t.flushing == nil {
		return nil
	}
	on := t.flushing
	t.flushing = nil
	if err := on.Wait(ctx); err != nil {
		return fmt.Errorf("flushing disk %s: %w", t.device, err)
	}
	return nil
}

// drain waits until all that was sent is written.
func (t *transfer) drain(ctx context.Context) (err error) {
	err = t.flushed(ctx)
	for i := range t.ring {
		err = errors.Join(err, t.settled(ctx, &t.ring[i]))
	}
	for len(t.zeroing) > 0 {
		err = errors.Join(err, t.zeroed(ctx))
	}
	return err
}

// zeros notes zeros to be made.
func (t *transfer) zeros(ctx context.Context, off, n int64) error {
	if off+n <= t.resume || n == 0 {
		return nil
	}
	if off < t.resume {
		at := t.resume / t.disk.Block() * t.disk.Block()
		off, n = at, off+n-at
	}
	if t.zero.n > 0 && t.zero.off+t.zero.n != off {
		if err := t.makeZeros(ctx); err != nil {
			return err
		}
	}
	if t.zero.n == 0 {
		t.zero.off = off
	}
	if t.zero.n += n; t.zero.n >= zeroRun {
		return t.makeZeros(ctx)
	}
	return nil
}

// makeZeros begins to make the zeros that were noted.
func (t *transfer) makeZeros(ctx context.Context) error {
	off, n := t.zero.off, t.zero.n
	t.zero.n = 0
	for n = min(t.padded(n), t.room-off); n > 0; {
		if len(t.zeroing) == zeroDepth {
			if err := t.zeroed(ctx); err != nil {
				return err
			}
		}
		on, k, err := t.disk.Zero(t.base+off, n)
		if err != nil {
			return fmt.Errorf("zeroing disk %s: %w", t.device, err)
		}
		t.zeroing = append(t.zeroing, on)
		off, n = off+k, n-k
	}
	return nil
}

// zeroed waits until the zeros that were begun first are made.
func (t *transfer) zeroed(ctx context.Context) error {
	on := t.zeroing[0]
	t.zeroing = append(t.zeroing[:0], t.zeroing[1:]...)
	if err := on.Wait(ctx); err != nil {
		return fmt.Errorf("zeroing disk %s: %w", t.device, err)
	}
	return nil
}

// flush returns when all of the image that was read is on the medium, but for its start.
func (t *transfer) flush(ctx context.Context) error {
	if err := errors.Join(t.makeZeros(ctx), t.drain(ctx)); err != nil {
		return err
	}
	if err := t.disk.Flush(ctx); err != nil {
		return fmt.Errorf("flushing disk %s: %w", t.device, err)
	}
	t.flushs = t.off
	return nil
}

// judged is why an image cannot be read: where the file is damaged, that is the reason.
func (t *transfer) judged(err error) error {
	for {
		switch done, derr := t.src.check(); {
		case derr != nil:
			return derr
		case done:
			return err
		}
	}
}

// ends takes in that the image has been read to its end.
func (t *transfer) ends(ctx context.Context) error {
	if t.off < 512 {
		return fmt.Errorf("the image holds only %d bytes, less than a disk's first sector", t.off)
	}
	if err := t.makeZeros(ctx); err != nil { // beside the check
		return err
	}
	if done, err := t.src.check(); err != nil || !done {
		return err
	}
	if err := t.fitsIn(t.off); err != nil {
		return err
	}
	t.read = true
	return t.flush(ctx)
}

// seal writes the start of the image, and reads it back. From then on the disk may boot.
func (t *transfer) seal(ctx context.Context) error {
	head := append(t.head, make([]byte, t.padded(int64(len(t.head)))-int64(len(t.head)))...)
	if err := t.pieces(ctx, head, t.disk.Write); err != nil {
		return fmt.Errorf("writing to disk %s: %w", t.device, err)
	}
	if err := t.disk.Flush(ctx); err != nil {
		return fmt.Errorf("flushing disk %s: %w", t.device, err)
	}
	got := make([]byte, len(head))
	if err := t.pieces(ctx, got, t.disk.BeginRead); err != nil {
		return fmt.Errorf("reading disk %s back: %w", t.device, err)
	}
	if !bytes.Equal(got, head) {
		return &differentError{t.device, t.base, int64(len(head))}
	}
	return nil
}

// pieces writes or reads the start of the image.
func (t *transfer) pieces(ctx context.Context, head []byte, begin func(p []byte, off int64) (*iscsi.Pending, error)) error {
	var begun []*iscsi.Pending
	for off := 0; off < len(head); off += iscsi.Largest {
		on, err := begin(head[off:min(off+iscsi.Largest, len(head))], t.base+int64(off))
		if err != nil {
			return err
		}
		begun = append(begun, on)
	}
	return all(ctx, begun)
}
