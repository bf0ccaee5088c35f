package image

import (
	"io"
	"os"
	"sync"
)

// arriving is a file in the spool that is read while it comes: the disk writes as the network brings. Reads of what has not come wait for
// it. So an image whose tables are at its end is read once all of it is there. Safe for concurrent use.
type arriving struct {
	file *os.File
	stop func() // ends the download
	mu   sync.Mutex
	more sync.Cond
	n    int64 // how much has come
	over bool  // nothing comes any more
	err  error // why not all came, or why it is not the promised file
}

// arrive keeps the file in f beside its caller. The stream is closed in the end.
func (a *attempt) arrive(s *stream, url string, plain io.Reader, f *os.File) *arriving {
	r := &arriving{file: f, stop: func() { a.giveUp(nil) }}
	r.more.L = &r.mu
	go func() {
		err := guarded("keeping the image", func() error { return a.keep(s, url, plain, s.length, r.write) })
		s.Close()
		r.mu.Lock()
		r.over, r.err = true, err
		r.mu.Unlock()
		r.more.Broadcast()
	}()
	return r
}

func (r *arriving) write(p []byte) (int, error) {
	n, err := r.file.Write(p)
	r.mu.Lock()
	r.n += int64(n)
	r.mu.Unlock()
	r.more.Broadcast()
	return n, err
}

// ReadAt fails with the download once that has failed.
func (r *arriving) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	for !r.over && r.n < off+int64(len(p)) {
		r.more.Wait()
	}
	err := r.err
	r.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return r.file.ReadAt(p, off)
}

func (r *arriving) whole() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.over {
		r.more.Wait()
	}
	return r.err
}

// Close ends the download, where that goes on.
func (r *arriving) Close() error {
	r.stop()
	_ = r.whole() // its goroutine has ended
	return r.file.Close()
}
