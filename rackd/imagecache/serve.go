package imagecache

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ironyard/ironyard/rackd/sendfile"
)

// Prefix is the path below which Handler serves.
const Prefix = "/images/"

const (
	// A download slower than this does not keep its image for ever.
	slowestBytesPerSecond = 256 << 10
	downloadGrace         = 2 * time.Minute
)

// Path is where Handler serves an image to a caller who shows its code. The ID stays
// the last part, by which boot programs name what they load.
func Path(code, id string) string { return Prefix + code + "/" + id }

// Handler serves GET and HEAD of Path, with ranges. A checksum is no right to an image:
// fits says whether a code is the image's. Firmware and agents have no other
// credential, but they are given whole URLs.
func (c *Cache) Handler(fits func(code, id string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, fits) })
}

func (c *Cache) serve(w http.ResponseWriter, r *http.Request, fits func(code, id string) bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "images are only read", http.StatusMethodNotAllowed)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, Prefix)
	code, id, whole := strings.Cut(rest, "/")
	if !ok || !whole || !ValidID(id) || !fits(code, id) {
		// Whether the image is here is told to none without its code.
		c.metrics.served.WithLabelValues("refused").Inc()
		http.Error(w, "no such image: a path is "+Path("<code>", "<algorithm>-<checksum>")+", as rackd has handed it out", http.StatusNotFound)
		return
	}
	e := c.acquire(id)
	if e == nil {
		c.metrics.served.WithLabelValues("missing").Inc()
		if c.coming(id) {
			// A neighbour's agent asks before the copy is whole: it shall ask again.
			w.Header().Set("Retry-After", "2")
			http.Error(w, "this image is being fetched; ask again", http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "this image is not in this rackd's cache", http.StatusNotFound)
		return
	}
	defer c.release(e)
	f, err := os.Open(filepath.Join(c.dir, id))
	if err != nil {
		c.metrics.served.WithLabelValues("failed").Inc()
		c.log.Error("image of the cache cannot be read", "image", id, "dir", c.dir, "error", err)
		http.Error(w, "this rackd cannot read the image; its log says why", http.StatusInternalServerError)
		return
	}
	defer f.Close()
	c.metrics.served.WithLabelValues("ok").Inc()
	// Writers that know no deadlines are tests and in-memory ones.
	control := http.NewResponseController(w)
	limit := downloadGrace + time.Duration(e.size/slowestBytesPerSecond)*time.Second
	if control.SetWriteDeadline(time.Now().Add(limit)) == nil {
		defer control.SetWriteDeadline(time.Time{}) // the connection may go on
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+id+`"`)
	w.Header().Set(headerImage, id)
	// No modification time: the name is the content, and the file's time is ours.
	http.ServeContent(sendfile.Writer(w), r, "", time.Time{}, f)
}

// acquire keeps an entry from eviction until release; nil for none.
func (c *Cache) acquire(id string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e != nil {
		e.refs++
		e.used = c.now()
	}
	return e
}

// coming reports whether the image is being fetched.
func (c *Cache) coming(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.flights[id]) > 0
}

func (c *Cache) release(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.refs--
	e.used = c.now()
}
