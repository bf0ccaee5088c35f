package qcow2file

import (
	"bufio"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/lima-vm/go-qcow2reader/image/qcow2"
)

const (
	// maxCluster bounds the memory for a compressed cluster, in bytes. A cluster has 2 MiB at most, and some encoders use the window of
	// their level whatever there is.
	maxCluster = 8 << 20
	// readAtOnce is how much of a compressed cluster is read at once, in bytes: all of one of the usual size.
	readAtOnce = 64 << 10
)

// The registry is the library's, process-wide.
func init() {
	// What the format calls zlib has no header.
	qcow2.SetDecompressor(qcow2.CompressionTypeZlib, func(r io.Reader) (io.ReadCloser, error) {
		i := inflaters.Get().(*inflater)
		i.from.Reset(r)
		return cluster{i}, i.ReadCloser.(flate.Resetter).Reset(i.from, nil)
	})
	qcow2.SetDecompressor(qcow2.CompressionTypeZstd, func(r io.Reader) (io.ReadCloser, error) {
		z, ok := unpackers.Get().(*unpacker)
		if !ok {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxCluster))
			if err != nil {
				return nil, err
			}
			z = &unpacker{d}
		}
		if err := z.Reset(r); err != nil {
			return nil, err
		}
		return cluster{z}, nil
	})
}

// To make a decompressor takes longer than to unpack a cluster of 64 KiB that compresses well, so they are used again.
var (
	inflaters = sync.Pool{New: func() any {
		from := bufio.NewReaderSize(nil, readAtOnce)
		return &inflater{flate.NewReader(from), from}
	}}
	unpackers sync.Pool
)

// inflater unpacks a cluster of zlib's format.
type inflater struct {
	io.ReadCloser
	from *bufio.Reader
}

// Close lets the next cluster have the inflater.
func (i *inflater) Close() error {
	i.from.Reset(nil)
	inflaters.Put(i)
	return nil
}

// unpacker unpacks a cluster of zstd's.
type unpacker struct{ *zstd.Decoder }

// Close lets the next cluster have the unpacker.
func (u *unpacker) Close() error {
	if err := u.Reset(nil); err != nil {
		return err
	}
	unpackers.Put(u)
	return nil
}

// cluster is what a compressed cluster unpacks to.
type cluster struct{ io.ReadCloser }

// Read fills p, as far as the cluster goes. The library takes io.EOF beside bytes for the end of the disk, so that comes alone. After each
// short piece it unpacks the cluster from its start again.
func (c cluster) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = c.ReadCloser.Read(p[n:])
		n += m
	}
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}
