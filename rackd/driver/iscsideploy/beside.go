package iscsideploy

import (
	"errors"
	"io"
	"math"
	"time"
)

const (
	// besideAtOnce is how much is hashed before the next look whether to stop, in bytes.
	besideAtOnce = 1 << 20
	// besideWait is how long one call of check waits.
	besideWait = 250 * time.Millisecond
)

// beside hashes a file while others read it. It goes as far as they have come, so that the file comes from the medium once.
type beside struct {
	promised
	ready int64 // what it may hash, and was not told of yet
	allow chan int64
	quit  chan struct{}
	done  chan struct{}
	err   error // why the file cannot be read; after done
}

func hashBeside(p promised) *beside {
	b := &beside{promised: p, allow: make(chan int64, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go b.run(b.allow)
	return b
}

// run hashes what is allowed, and all of the file once allow is closed.
func (b *beside) run(allow <-chan int64) {
	defer close(b.done)
	for left := int64(0); ; {
		if left == 0 {
			select {
			case <-b.quit:
				return
			case n, limited := <-allow:
				if left = n; !limited {
					left = math.MaxInt64
				}
			}
		}
		select {
		case <-b.quit:
			return
		default:
		}
		n, err := io.CopyN(b.hash, b.file, min(left, besideAtOnce))
		if err != nil {
			if !errors.Is(err, io.EOF) {
				b.err = err
			}
			return
		}
		left -= n
	}
}

// more allows n bytes more. It does not wait.
func (b *beside) more(n int64) {
	b.ready += n
	select {
	case b.allow <- b.ready:
		b.ready = 0
	default:
	}
}

// check has the rest hashed, and compares once it is. Nothing is allowed after it.
func (b *beside) check() (bool, error) {
	if b.allow != nil {
		close(b.allow)
		b.allow = nil
	}
	select {
	case <-b.done:
	case <-time.After(besideWait):
		return false, nil
	}
	if b.err != nil {
		return false, b.err
	}
	return true, b.fits()
}

// close returns when the file is not read any more. It may be called once.
func (b *beside) close() {
	close(b.quit)
	<-b.done
}
