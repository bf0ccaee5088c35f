// Package qcow2file opens qcow2 files for those who read the disk within: agents, and rackd where it writes the disk itself.
//
// It imports nothing of the project. Invariants: a file that refers to another file is refused. Compressed clusters of all sizes are read,
// by zlib and by zstd, and none asks for more memory than a cluster needs. The caller has judged the header before (protocol/diskformat).
package qcow2file

import (
	"errors"
	"io"

	"github.com/lima-vm/go-qcow2reader/image"
	"github.com/lima-vm/go-qcow2reader/image/qcow2"
)

var errOtherFile = errors.New("the file refers to another file; flatten it with qemu-img convert")

// refused stands for the other file: the library closes what it was not given.
type refused struct{ image.Image }

func (refused) Close() error { return nil }

// Open reads the file's tables.
func Open(file io.ReaderAt) (*qcow2.Qcow2, error) {
	img, err := qcow2.Open(file, func(io.ReaderAt, image.Type) (image.Image, error) { return refused{}, errOtherFile })
	if err != nil {
		return nil, err
	}
	return img, img.Readable()
}
