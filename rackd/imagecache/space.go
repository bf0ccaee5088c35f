package imagecache

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// share is the part of its file system that the cache fills at most, in percent, and
	// spare what it leaves free, in percent but no more than maxSpare bytes.
	share    = 80
	spare    = 2
	maxSpare = 1 << 30
)

// space is the size of the file system of a folder and what is free of it, in bytes.
type space struct{ size, free int64 }

func spaceOf(dir string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return space{}, err
	}
	return space{int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize}, nil
}

// bound is how many bytes images may take: the configured bound, and a share of the disk.
// Where the disk does not tell its size the configured bound is all there is.
func (c *Cache) bound() int64 {
	s, err := spaceOf(c.dir)
	if err != nil || s.size == 0 {
		return c.max
	}
	return min(c.max, s.size/100*share)
}

// crowded reports whether need more bytes than are granted do not fit on the disk, which others
// fill too. Its caller holds mu.
func (c *Cache) crowded(need int64) bool {
	s, err := spaceOf(c.dir)
	if err != nil || s.size == 0 || need <= 0 {
		return false
	}
	return s.free-(c.reserved-c.written-c.converted())-need < min(s.size/100*spare, maxSpare)
}

// converted is how many of the bytes that are granted to conversions are on the disk. Its caller holds mu.
func (c *Cache) converted() (all int64) {
	for f, part := range c.making {
		all += min(onMedium(part), f.reserved)
	}
	return all
}

// onMedium is how many bytes of the disk a file takes, without its holes.
func onMedium(f *os.File) int64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0
	}
	return st.Blocks * 512
}

// room says how full the disk is, for errors.
func (c *Cache) room() string {
	s, err := spaceOf(c.dir)
	if err != nil {
		return fmt.Sprintf("the disk of %s does not say how full it is (%v)", c.dir, err)
	}
	return fmt.Sprintf("the disk of %s has %d bytes, of which %d are free", c.dir, s.size, s.free)
}
