package imagecache

import "errors"

// What can be wrong with an image. Errors of this package wrap one of these.
var (
	// ErrSource: the source is unusable as it is written.
	ErrSource = errors.New("unusable image source")
	// ErrNotFound: its server, or the folder, does not give it: no such image, or
	// no permission.
	ErrNotFound = errors.New("image not available")
	// ErrChecksum: what came is not what was asked for.
	ErrChecksum = errors.New("wrong checksum")
	// ErrTooLarge: it is larger than the whole cache.
	ErrTooLarge = errors.New("image too large")
	// ErrFull: no room now; it comes when downloads end.
	ErrFull = errors.New("image cache full")
	// ErrDisk: the cache's own disk failed.
	ErrDisk = errors.New("image cache's disk failed")
	// ErrUnavailable: its server failed or the transfer broke.
	ErrUnavailable = errors.New("image server failed")
)

// Permanent reports whether trying the same source again cannot help before
// somebody changes something.
func Permanent(err error) bool {
	for _, e := range []error{ErrSource, ErrNotFound, ErrChecksum, ErrTooLarge} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
