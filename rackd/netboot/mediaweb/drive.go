package mediaweb

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/ironyard/ironyard/rackd/strangers"
)

// Config drives are made once and read in many parts: those that were read last stay in memory, and nowhere else.
const (
	drivesFor   = 5 * time.Minute
	drivesBytes = 128 << 20 // two of the largest
	// makingWithin is how long a request waits for the drive that another has made.
	makingWithin = 3 * time.Minute
)

// drives keeps what was read lately. Safe for concurrent use.
type drives struct {
	mu   sync.Mutex
	kept []*kept // the one that was read last is the last
}

// kept is a config drive; made ends its making.
type kept struct {
	code, sum string
	made      chan struct{}
	image     []byte
	err       error
	idle      *time.Timer
}

// get returns the drive with a code, which open makes if it is not there. Those who ask at once wait for one making.
func (d *drives) get(ctx context.Context, code, sum string, open func() ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, makingWithin)
	defer cancel()
	d.mu.Lock()
	for _, k := range d.kept {
		if k.code == code && k.sum == sum {
			d.mu.Unlock()
			select {
			case <-k.made:
				return k.image, k.err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	k := &kept{code: code, sum: sum, made: make(chan struct{})}
	d.kept = append(d.kept, k)
	d.mu.Unlock()
	image, err := open()
	d.mu.Lock()
	defer d.mu.Unlock()
	k.image, k.err = image, err
	close(k.made)
	if err != nil {
		d.drop(k)
		return nil, err
	}
	k.idle = time.AfterFunc(drivesFor, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop(k)
	})
	all := 0
	for i := len(d.kept) - 1; i >= 0; i-- {
		if all += len(d.kept[i].image); all > drivesBytes && d.kept[i].idle != nil && d.kept[i] != k {
			d.drop(d.kept[i])
		}
	}
	return image, nil
}

// drop forgets a drive; mu is held.
func (d *drives) drop(k *kept) {
	if k.idle != nil {
		k.idle.Stop()
	}
	for i := range d.kept {
		if d.kept[i] == k {
			d.kept = append(d.kept[:i:i], d.kept[i+1:]...)
			return
		}
	}
}

// forget drops the drives with a code whose instance is over.
func (d *drives) forget(code string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.kept) - 1; i >= 0; i-- {
		if k := d.kept[i]; k.code == code && k.idle != nil {
			d.drop(k)
		}
	}
}

// serveDrive serves the config drive of an instance. What is in it is in no line of the log.
func (c web) serveDrive(w http.ResponseWriter, r *http.Request) {
	code := r.PathValue("code")
	sum, open, err := c.Drive(r.Context(), r.PathValue("node"), code)
	if err != nil {
		c.drives.forget(code)
		c.Metrics.File("configdrive", "missing", 0)
		if c.lines.OfStranger() {
			c.Log.Warn("config drive refused: the node has no instance with this code now", "node", strangers.Name(r.PathValue("node")), "from", r.RemoteAddr)
		}
		http.NotFound(w, r)
		return
	}
	image, err := c.drives.get(r.Context(), code, sum, open)
	if err != nil {
		c.Metrics.File("configdrive", "failed", 0)
		c.Log.Error("an instance's config drive cannot be served", "node", r.PathValue("node"), "error", err)
		w.Header().Set("Retry-After", "2")
		http.Error(w, "this rackd cannot make the medium; its log says why", http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	if control.SetWriteDeadline(time.Now().Add(grace+time.Duration(len(image)/slowestBytesPerSecond)*time.Second)) == nil {
		defer control.SetWriteDeadline(time.Time{}) // the connection may go on
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("ETag", `"`+sum+`"`)
	counted := &counter{ResponseWriter: w}
	http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(image))
	c.Metrics.File("configdrive", "ok", counted.sent)
}
