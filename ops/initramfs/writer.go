package initramfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// File types in the mode field, as in struct stat.
const (
	typeFile    = 0o100000
	typeDir     = 0o040000
	typeSymlink = 0o120000
	typeChar    = 0o020000
	typeBlock   = 0o060000
	typeMask    = 0o170000
)

// maxFile is the most that the eight hexadecimal digits of a size can say.
const maxFile = 1<<32 - 1

// ErrDuplicate is returned for a name that is in the archive already.
var ErrDuplicate = errors.New("name is in the archive already")

// DeviceKind says which kind of device node AddDevice makes.
type DeviceKind uint32

// The kinds of device nodes.
const (
	CharDevice  DeviceKind = typeChar
	BlockDevice DeviceKind = typeBlock
)

// Writer writes one archive. Names are slash-separated, with or without a leading
// slash; missing parent folders are added with mode 0755. After an error the
// archive is unusable. Not safe for concurrent use.
type Writer struct {
	w       io.Writer
	written int64
	inode   uint32
	names   map[string]bool
}

// NewWriter writes an archive to w. The caller must call Close.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, names: map[string]bool{}}
}

// AddDir adds a folder. A folder that is there already is left as it is.
func (w *Writer) AddDir(name string, perm fs.FileMode) error {
	name, err := clean(name)
	if err != nil {
		return err
	}
	if w.names[name] {
		return nil
	}
	if err := w.parents(name); err != nil {
		return err
	}
	return w.entry(name, typeDir|unixMode(perm), 0, 0, nil)
}

// AddFile adds a regular file of at most 4 GiB.
func (w *Writer) AddFile(name string, perm fs.FileMode, data []byte) error {
	return w.leaf(name, typeFile|unixMode(perm), 0, 0, data)
}

// AddSymlink adds a symbolic link called name that points at target.
func (w *Writer) AddSymlink(name, target string) error {
	return w.leaf(name, typeSymlink|0o777, 0, 0, []byte(target))
}

// AddDevice adds a device node. Early userspace needs /dev/console before it has
// mounted devtmpfs.
func (w *Writer) AddDevice(name string, kind DeviceKind, perm fs.FileMode, major, minor uint32) error {
	if kind != CharDevice && kind != BlockDevice {
		return fmt.Errorf("adding device %s: unknown kind %#o", name, uint32(kind))
	}
	return w.leaf(name, uint32(kind)|unixMode(perm), major, minor, nil)
}

// Close ends the archive; it does not close the underlying writer.
func (w *Writer) Close() error {
	w.inode = 0
	if err := w.header("TRAILER!!!", 0, 0, 0, nil); err != nil {
		return fmt.Errorf("ending archive: %w", err)
	}
	// The kernel does not ask for it, but tools read cpio in blocks of 512.
	return w.pad(512)
}

func (w *Writer) leaf(name string, mode, major, minor uint32, data []byte) error {
	name, err := clean(name)
	if err != nil {
		return err
	}
	if err := w.parents(name); err != nil {
		return err
	}
	return w.entry(name, mode, major, minor, data)
}

func (w *Writer) parents(name string) error {
	for i, c := range name {
		if c == '/' && !w.names[name[:i]] {
			if err := w.entry(name[:i], typeDir|0o755, 0, 0, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) entry(name string, mode, major, minor uint32, data []byte) error {
	if w.names[name] {
		return fmt.Errorf("adding %s: %w", name, ErrDuplicate)
	}
	if int64(len(data)) > maxFile {
		return fmt.Errorf("adding %s: %d bytes do not fit an archive entry", name, len(data))
	}
	w.names[name] = true
	w.inode++
	if err := w.header(name, mode, major, minor, data); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return nil
}

// header writes the 110 ASCII bytes of newc, the name and the data, each padded
// to four bytes from the start of the archive.
func (w *Writer) header(name string, mode, major, minor uint32, data []byte) error {
	links := 1
	if mode&typeMask == typeDir {
		links = 2
	}
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		w.inode, mode, 0, 0, links, 0, len(data), 0, 0, major, minor, len(name)+1, 0, name)
	if err := w.write([]byte(head)); err != nil {
		return err
	}
	if err := w.pad(4); err != nil {
		return err
	}
	if err := w.write(data); err != nil {
		return err
	}
	return w.pad(4)
}

func (w *Writer) write(p []byte) error {
	n, err := w.w.Write(p)
	w.written += int64(n)
	return err
}

func (w *Writer) pad(to int64) error {
	if rest := w.written % to; rest != 0 {
		return w.write(make([]byte, to-rest))
	}
	return nil
}

func unixMode(perm fs.FileMode) uint32 {
	mode := uint32(perm.Perm())
	if perm&fs.ModeSetuid != 0 {
		mode |= 0o4000
	}
	if perm&fs.ModeSetgid != 0 {
		mode |= 0o2000
	}
	if perm&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}

func clean(name string) (string, error) {
	cleaned := strings.TrimPrefix(path.Clean("/"+name), "/")
	if cleaned == "" || strings.ContainsRune(cleaned, 0) {
		return "", fmt.Errorf("adding %q: not a file name", name)
	}
	return cleaned, nil
}
