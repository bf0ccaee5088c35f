package mediaweb

import (
	"sync"
	"time"

	"github.com/ironyard/ironyard/rackd/bootmedium"
)

const (
	// heldFor is how long the rack's files of a medium stay open after it was read last. A BMC reads in many requests, and the
	// machine's boot loader decides when.
	heldFor = 15 * time.Minute
	// mostHeld bounds how many files are held open. Others are opened for each request.
	mostHeld = 2048
)

// held keeps the rack's files open that media are being read of, so that all parts of a medium are of the same files, also when these are
// replaced meanwhile. Safe for concurrent use.
type held struct {
	mu    sync.Mutex
	files map[place]*opened
}

// place is a file of one boot's medium.
type place struct{ code, name string }

type opened struct {
	file bootmedium.File
	done func()
	refs int
	gone bool // it is closed with its last user
	idle *time.Timer
}

// open returns the file that the boot's medium had before, or opens one. The caller calls done.
func (h *held) open(at place, open func() (bootmedium.File, func(), error)) (bootmedium.File, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.files[at]
	if o == nil {
		f, done, err := open()
		if err != nil || len(h.files) >= mostHeld {
			return f, done, err
		}
		o = &opened{file: f, done: done}
		if h.files == nil {
			h.files = map[place]*opened{}
		}
		h.files[at] = o
	}
	o.refs++
	if o.idle != nil {
		o.idle.Stop()
	}
	return o.file, func() { h.release(at, o) }, nil
}

func (h *held) release(at place, o *opened) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.refs--; o.refs > 0 {
		return
	}
	if o.gone {
		o.done()
		return
	}
	o.idle = time.AfterFunc(heldFor, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.files[at] == o && o.refs == 0 {
			h.drop(at, o)
		}
	})
}

// forget lets the files of a boot go that is over.
func (h *held) forget(code string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, o := range h.files {
		if at.code == code {
			h.drop(at, o)
		}
	}
}

// drop lets a file go; mu is held.
func (h *held) drop(at place, o *opened) {
	delete(h.files, at)
	if o.idle != nil {
		o.idle.Stop()
	}
	if o.gone = true; o.refs == 0 {
		o.done()
	}
}
