package qcow2file

import (
	"compress/flate"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/lima-vm/go-qcow2reader/image/qcow2"
)

// maxCluster bounds the memory for a compressed cluster, in bytes. A cluster has 2 MiB at most, and some encoders use the window of
// their level whatever there is.
const maxCluster = 8 << 20

// The registry is the library's, process-wide.
func init() {
	// What the format calls zlib has no header.
	qcow2.SetDecompressor(qcow2.CompressionTypeZlib, func(r io.Reader) (io.ReadCloser, error) {
		return cluster{flate.NewReader(r)}, nil
	})
	qcow2.SetDecompressor(qcow2.CompressionTypeZstd, func(r io.Reader) (io.ReadCloser, error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxCluster))
		if err != nil {
			return nil, err
		}
		return cluster{z.IOReadCloser()}, nil
	})
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
