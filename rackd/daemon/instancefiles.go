package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// errComing means that a file is on its way into the cache.
var errComing = errors.New("it is on its way into the rack's cache")

// Bounds on bringing a file of an instance into the cache.
const (
	bringWithin = 30 * time.Minute
	bringAgain  = 30 * time.Second // after a failure
)

// instanceFiles brings what instances boot back into the rack's cache, when a machine asks for what is no longer there: another
// rackd has deployed it, others' images have taken its place, or the disk has lost it. Safe for concurrent use.
type instanceFiles struct {
	ensure func(ctx context.Context, src imagecache.Source) (imagecache.Entry, error)
	holds  func(id string) bool // whole, as far as was looked lately
	log    *slog.Logger

	mu sync.Mutex
	// tries are the files that are on their way, or did not come lately, by their ids.
	tries map[string]*try
}

type try struct {
	err error     // nil while it goes on
	at  time.Time // of its end
}

// bring returns nil once the file is in the cache, errComing while it comes, else why it does not. It does not wait.
func (i *instanceFiles) bring(f bootorder.File) error {
	if i.holds(f.ID) {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, t := range i.tries {
		if t.err != nil && time.Since(t.at) > bringAgain {
			delete(i.tries, id)
		}
	}
	switch t := i.tries[f.ID]; {
	case t == nil:
	case t.err == nil:
		return errComing
	default:
		return t.err
	}
	t := &try{}
	i.tries[f.ID] = t
	go i.fetch(f, t)
	return errComing
}

func (i *instanceFiles) fetch(f bootorder.File, t *try) {
	ctx, cancel := context.WithTimeout(context.Background(), bringWithin)
	defer cancel()
	algo, value, _ := strings.Cut(f.ID, "-")
	_, err := i.ensure(ctx, imagecache.Source{URL: f.URL, HashAlgo: algo, HashValue: value, Given: f.ID})
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		delete(i.tries, f.ID)
		return
	}
	t.err, t.at = err, time.Now()
	i.log.Warn("a file that an instance boots could not be brought into the cache again; its machine waits", "image", f.ID, "error", err)
}

// instance replaces the addresses of an instance's files by those in the rack's cache, or the order by one to ask again.
func (d directory) instance(o bootorder.Order) bootorder.Order {
	var files []*bootorder.File
	if o.Image != nil {
		image := *o.Image
		o.Image = &image
		files = append(files, &image)
	}
	if o.Load != nil {
		load := *o.Load
		o.Load = &load
		files = append(files, &load.Kernel, &load.Initramfs)
		if load.Installer != nil {
			i := *load.Installer
			load.Installer = &i
			files = append(files, &i.Template, &i.Stage2, &i.Image)
		}
	}
	for _, f := range files {
		if !f.Kept || f.ID == "" { // what only TFTP gives
			continue
		}
		if d.bring == nil { // no machine loads it now
			return o
		}
		err := d.bring(*f)
		if at := d.cached(f.ID); err == nil && at != "" {
			f.URL = at
			continue
		} else if err == nil { // evicted since
			err = errComing
		}
		later := bootorder.Later(fmt.Sprintf("a file of the instance (%.20s...): %v", f.ID, err))
		later.OverTFTP = o.OverTFTP
		return later
	}
	return o
}
