package iscsideploy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/lima-vm/go-qcow2reader/image"
	"github.com/therootcompany/xz"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/protocol/gzipfile"
	"github.com/ironyard/ironyard/protocol/qcow2file"
	"github.com/ironyard/ironyard/rackd/driver"
)

// source reads the disk within an image file from start to end.
type source interface {
	// size in bytes; 0: not known yet.
	size() int64
	// next fills p, or tells that the next zero bytes are zeros. io.EOF: the disk has ended. A short piece is its last.
	next(p []byte) (n int, zero int64, err error)
	// check compares the file that was read with the promised checksum, a part of it in each call until done. It is asked after
	// next has failed or ended.
	check() (done bool, err error)
	close()
}

// damagedError says that the rack's copy of an image is not what it was.
type damagedError struct{ text string }

func (e *damagedError) Error() string { return e.text }

// openSource reads the file of an image of the cache.
func openSource(f *os.File, i driver.DiskImage) (source, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if i.Format == diskformat.QCOW2 && i.Compression != "" {
		return nil, fmt.Errorf("the image is a qcow2 file within %s, and this rackd's cache has not unpacked it: %w", i.Compression, driver.ErrInvalid)
	}
	if i.Format == diskformat.QCOW2 {
		return openQcow2(f, i)
	}
	s := &stream{promised: promise(f, i), done: func() {}}
	s.file = io.TeeReader(f, s.hash)
	s.plain = s.file
	switch i.Compression {
	case "":
		s.bytes = info.Size()
	case diskformat.Gzip:
		if s.plain, err = gzipfile.NewReader(s.file); err != nil {
			return nil, fmt.Errorf("the image cannot be unpacked as gzip: %w", err)
		}
	case diskformat.Zstd:
		z, err := zstd.NewReader(s.file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("the image cannot be unpacked as zstd: %w", err)
		}
		s.plain, s.done = z, z.Close
	case diskformat.XZ:
		if s.plain, err = xz.NewReader(bufio.NewReaderSize(s.file, 1<<20), maxDictionary); err != nil {
			return nil, fmt.Errorf("the image cannot be unpacked as xz: %w", err)
		}
	default:
		return nil, fmt.Errorf("the image is compressed as %q, which the deploy interface iscsi does not read: %w", i.Compression, driver.ErrInvalid)
	}
	return s, nil
}

// maxDictionary bounds the memory for an xz file, in bytes, as agents have it: `xz -9` needs as much.
const maxDictionary = 64 << 20

// promised is a file with the checksum that it has to have.
type promised struct {
	file io.Reader // what was not hashed yet
	hash hash.Hash
	want string
}

func promise(f io.Reader, i driver.DiskImage) promised {
	p := promised{file: f, hash: sha256.New(), want: i.HashValue}
	if i.HashAlgo == "sha512" {
		p.hash = sha512.New()
	}
	return p
}

// stream is a raw image, hashed as it is stored.
type stream struct {
	promised
	plain       io.Reader
	bytes, read int64
	done        func()
}

func (s *stream) size() int64 { return s.bytes }

// zeros to compare with.
var zeros [64 << 10]byte

// isZero reports whether p holds zeros alone.
func isZero(p []byte) bool {
	for len(p) > 0 {
		n := min(len(p), len(zeros))
		if !bytes.Equal(p[:n], zeros[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}

func (s *stream) next(p []byte) (int, int64, error) {
	n, err := io.ReadFull(s.plain, p)
	if n == 0 {
		return 0, 0, err
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0, err
	}
	if s.read == 0 {
		if err := raw(p[:n]); err != nil {
			return 0, 0, err
		}
	}
	s.read += int64(n)
	if n == len(p) && isZero(p) {
		return 0, int64(n), nil
	}
	return n, 0, nil
}

// raw refuses content that is not a disk's.
func raw(head []byte) error {
	found := diskformat.Sniff(head)
	if c := diskformat.Compression(head); c != "" {
		found = c + "-compressed"
	}
	if found != diskformat.Raw {
		return fmt.Errorf("the image is declared as raw but its content is %s: correct the image's disk format or compression: %w", found, driver.ErrInvalid)
	}
	return nil
}

// atOnce is how much of a file one call of check reads, in bytes.
const atOnce = 64 << 20

// check reads on, and compares once the file has ended.
func (s *stream) check() (bool, error) {
	if n, err := io.CopyN(io.Discard, s.file, atOnce); err != nil && !errors.Is(err, io.EOF) || n == atOnce {
		return false, err
	}
	return true, s.fits()
}

// fits compares the checksum of the whole file.
func (p *promised) fits() error {
	if got := hex.EncodeToString(p.hash.Sum(nil)); got != p.want {
		return &damagedError{fmt.Sprintf("the rack's copy of the image has checksum %s, expected %s", got, p.want)}
	}
	return nil
}

func (s *stream) close() { s.done() }

// sparse is a qcow2 file, whose table tells what is zero. It is read out of order, so it is hashed beside that.
type sparse struct {
	beside *beside
	image  image.Image
	bytes  int64
	off    int64
	// cluster is the size of one, in bytes.
	cluster int64
	// ahead is how far the table is looked through for zeros. It grows with them: each look takes its time.
	ahead int64
}

// mostAhead bounds it, in bytes.
const mostAhead = 64 << 20

func openQcow2(f *os.File, i driver.DiskImage) (source, error) {
	head := make([]byte, diskformat.QCOW2HeaderLen)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	size, err := diskformat.QCOW2Header(head[:n])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, driver.ErrInvalid)
	}
	img, err := qcow2file.Open(f)
	if err != nil {
		return nil, fmt.Errorf("the qcow2 file cannot be read: %w", err)
	}
	return &sparse{beside: hashBeside(promise(io.NewSectionReader(f, 0, math.MaxInt64), i)), image: img, bytes: size, cluster: 1 << img.ClusterBits}, nil
}

func (s *sparse) size() int64 { return s.bytes }

func (s *sparse) next(p []byte) (int, int64, error) {
	left := s.bytes - s.off
	if left == 0 {
		return 0, 0, io.EOF
	}
	n := min(left, int64(len(p)))
	// The reader counts right from the start of a cluster alone.
	at := s.off / s.cluster * s.cluster
	s.ahead = max(s.ahead, int64(len(p)), s.cluster)
	extent, err := s.image.Extent(at, min(s.bytes-at, s.ahead))
	if err != nil {
		return 0, 0, err
	}
	if zero := (at + extent.Length - s.off) / int64(len(p)) * int64(len(p)); (!extent.Allocated || extent.Zero) && zero > 0 {
		s.off, s.ahead = s.off+zero, min(2*s.ahead, mostAhead)
		return 0, zero, nil
	}
	s.ahead = 0
	got, err := s.image.ReadAt(p[:n], s.off)
	if int64(got) != n {
		return 0, 0, fmt.Errorf("the qcow2 file cannot be read at %d: %w", s.off, err)
	}
	s.off += n
	s.beside.more(n)
	if n == int64(len(p)) && isZero(p) {
		return 0, n, nil
	}
	return int(n), 0, nil
}

func (s *sparse) check() (bool, error) { return s.beside.check() }
func (s *sparse) close()               { s.beside.close() }
