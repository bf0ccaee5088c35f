package image

import (
	"errors"
	"fmt"
)

// ChecksumError says that the file as served is not the one that was promised.
type ChecksumError struct {
	URL, Algo, Want, Got string
	Bytes                int64
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("wrong checksum: %s (%d bytes) has %s %s, expected %s; correct the image's checksum or the file, nothing bootable was left on the disk",
		e.URL, e.Bytes, e.Algo, e.Got, e.Want)
}

// FaultType names the error as ironic-python-agent does.
func (e *ChecksumError) FaultType() string { return "ImageChecksumError" }

// StatusError says that the server refused.
type StatusError struct {
	URL, Status string
	Code        int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("downloading image: %s answered %s", e.URL, e.Status)
}

// FaultType names the error as ironic-python-agent does.
func (e *StatusError) FaultType() string { return "ImageDownloadError" }

// DownloadError says that the network or the server failed, again and again.
type DownloadError struct {
	URL   string
	Tries int
	Bytes int64 // received by the last attempt
	Err   error
}

func (e *DownloadError) Error() string {
	return fmt.Sprintf("downloading image: %s failed %d times, at last after %d bytes: %v", e.URL, e.Tries, e.Bytes, e.Err)
}

func (e *DownloadError) Unwrap() error { return e.Err }

// FaultType names the error as ironic-python-agent does.
func (e *DownloadError) FaultType() string { return "ImageDownloadError" }

// TooSmallError says that the image does not fit the disk.
type TooSmallError struct {
	Disk                string
	DiskBytes, ImgBytes int64
	// AtLeast is true when the image's size is not known, only that it is larger.
	AtLeast bool
}

func (e *TooSmallError) Error() string {
	size := fmt.Sprintf("%d bytes", e.ImgBytes)
	if e.AtLeast {
		size = "more than " + size
	}
	return fmt.Sprintf("disk %s is too small: it has %d bytes, the image %s; choose another disk (root device hints) or a smaller image",
		e.Disk, e.DiskBytes, size)
}

// FaultType names the error as ironic-python-agent does.
func (e *TooSmallError) FaultType() string { return "ImageWriteError" }

// FormatError says that the image is not what it must be.
type FormatError struct{ Image, Reason string }

func (e *FormatError) Error() string { return fmt.Sprintf("image %s: %s", e.Image, e.Reason) }

// FaultType names the error as ironic-python-agent does.
func (e *FormatError) FaultType() string { return "InvalidImage" }

// wipeError adds to an error that the disk could not even be wiped.
type wipeError struct{ err, wipe error }

func (e *wipeError) Error() string {
	return fmt.Sprintf("%v; and the disk could not be wiped: %v", e.err, e.wipe)
}

func (e *wipeError) Unwrap() []error { return []error{e.err, e.wipe} }

// transient marks an error of the network, worth another attempt.
type transient struct {
	err   error
	bytes int64
}

func (e *transient) Error() string { return e.err.Error() }
func (e *transient) Unwrap() error { return e.err }

func isTransient(err error) (*transient, bool) { return errors.AsType[*transient](err) }
