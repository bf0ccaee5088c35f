// Package mediaweb serves the media that ramdisks and instances boot from, over HTTP, to BMCs and to firmware:
//
//	GET /media/{node}/{code}/boot.iso         the bootable image of one boot, or of an instance; HEAD, and ranges of bytes
//	GET /media/{node}/{code}/boot.img         the same, for a BMC that shows it as a USB stick
//	GET /media/{node}/{code}/configdrive.img  the config drive of an instance
//	GET /media/{node}/{code}/parameters.img   the parameters of one boot, for a ramdisk in a node's own image
//
// It may import protocol, rackd/bootmedium, rackd/paramdisk, rackd/bootorder, rackd/netboot, rackd/netboot/bootfiles,
// rackd/netboot/ipxescript and rackd/strangers. BMCs have no credentials, so that the code is one: who asks with another gets 404,
// which tells nothing of the node. The address ends in .iso, or that of a disk in .img, and has no query: BMCs refuse others.
// Invariants: an image is put together for each request, and is never whole in memory; all requests of one boot get it from the
// same files, while these are held. When the boot is over, so is its address.
package mediaweb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootmedium"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Prefix is the path below which media are.
const Prefix = "/media/"

// Path is where the medium of a node's boot is.
func Path(node, code string) string { return Prefix + node + "/" + code + "/boot.iso" }

// DrivePath is where the config drive of a node's instance is.
func DrivePath(node, code string) string { return Prefix + node + "/" + code + "/configdrive.img" }

// ParametersPath is where the parameters of a node's boot are, for a node's own image.
func ParametersPath(node, code string) string { return Prefix + node + "/" + code + "/parameters.img" }

// Medium is what one medium holds.
type Medium struct {
	Node    *node.Document
	Machine netboot.Machine // whose order says what is loaded
	Load    bootorder.Load
	// Parameters: the medium holds the parameters alone, for a node's own image.
	Parameters bool
	// Read takes note that bytes were read, of which a machine needs so many to boot; nil: it is noted nowhere.
	Read func(bytes, needs int64)
}

// Config of the server.
type Config struct {
	// Medium looks a medium up by its code; ok is false for a code that is none now. It may wait for files, until ctx ends.
	Medium func(ctx context.Context, node, code string) (m Medium, ok bool)
	// Open opens a file of the ramdisk: the node's own by its id in the rack's cache, or, with an empty one, that of the rack by
	// its name (bootfiles).
	Open func(id, name string) (f bootmedium.File, done func(), err error)
	// Drive looks a config drive up by its code; sum is its SHA-256, and open reads it. An error says that the code is none now.
	Drive func(ctx context.Context, node, code string) (sum string, open func() ([]byte, error), err error)
	// Ramdisk says what the agent of a machine is told, and the names of the rack's files for it.
	Ramdisk func(m netboot.Machine) ipxescript.Ramdisk
	Loader  *bootmedium.Loader
	Journal netboot.Journal
	Metrics *netboot.Metrics // nil: nothing is counted
	// Strangers bounds what is logged of them; nil: by the defaults.
	Strangers *strangers.Gate
	Log       *slog.Logger
}

type web struct {
	Config
	lines  *strangers.LineCount
	held   *held
	drives *drives
}

// Handler serves what is below Prefix. Safe for concurrent use.
func Handler(c Config) http.Handler {
	if c.Strangers == nil {
		c.Strangers = strangers.New(strangers.Budget{}, nil, c.Log)
	}
	w := web{c, c.Strangers.Lines("the media web"), &held{}, &drives{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Prefix+"{node}/{code}/configdrive.img", w.serveDrive)
	mux.HandleFunc("GET "+Prefix+"{node}/{code}/parameters.img", w.serveParameters)
	mux.HandleFunc("GET "+Prefix+"{node}/{code}/boot.iso", w.serve)
	mux.HandleFunc("GET "+Prefix+"{node}/{code}/boot.img", w.serve)
	return mux
}

// A BMC that reads slower than this does not hold the files of its medium for ever.
const (
	slowestBytesPerSecond = 64 << 10
	grace                 = 2 * time.Minute
)

func (c web) serve(w http.ResponseWriter, r *http.Request) {
	code := r.PathValue("code")
	m, ok := c.Medium(r.Context(), r.PathValue("node"), code)
	if !ok || m.Parameters {
		c.held.forget(code)
		c.Metrics.File("medium", "missing", 0)
		if c.lines.OfStranger() {
			c.Log.Warn("medium refused: the node has no boot with this code now", "node", strangers.Name(r.PathValue("node")), "from", r.RemoteAddr)
		}
		http.NotFound(w, r)
		return
	}
	image, tag, done, err := c.image(m, code)
	if err != nil {
		c.Metrics.File("medium", "failed", 0)
		c.Log.Error("a medium cannot be made", "node", m.Node.UUID, "error", err)
		status := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) { // this rackd has not its copy yet
			w.Header().Set("Retry-After", "2")
			status = http.StatusServiceUnavailable
		}
		http.Error(w, "this rackd cannot make the medium; its log says why", status)
		return
	}
	defer done()
	// Writers that know no deadlines are tests and in-memory ones.
	control := http.NewResponseController(w)
	if control.SetWriteDeadline(time.Now().Add(grace+time.Duration(image.Size()/slowestBytesPerSecond)*time.Second)) == nil {
		defer control.SetWriteDeadline(time.Time{}) // the connection may go on
	}
	c.note(r, m, image.Size())
	read := func(bytes int64) {
		if m.Read != nil && r.Method == http.MethodGet {
			m.Read(bytes, image.Needs())
		}
	}
	read(0)                                                   // a reader that takes its time is one
	w.Header().Set("Content-Type", "application/vnd.efi-iso") // UEFI HTTP boot looks at it
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("ETag", `"`+tag+`"`)
	counted := &counter{ResponseWriter: w}
	http.ServeContent(counted, r, "", time.Time{}, io.NewSectionReader(image, 0, image.Size()))
	read(counted.sent)
	c.Metrics.File("medium", "ok", counted.sent)
}

// image puts a medium together; tag changes with what is in it. The caller calls done.
func (c web) image(m Medium, code string) (image *bootmedium.Image, tag string, done func(), err error) {
	var open []func()
	closeAll := func() {
		for _, f := range open {
			f()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	ramdisk := c.Ramdisk(m.Machine)
	params, err := ipxescript.MediumParams(m.Machine, ramdisk, bootmedium.LoadersParam)
	if err != nil {
		return nil, "", nil, err
	}
	contents := bootmedium.Contents{Params: params, NetworkData: m.Node.NetworkData}
	if m.Load.Instance { // which is told nothing that an agent is told
		contents.NetworkData = nil
	}
	kernel, initramfs := ramdisk.Files(m.Load.Rescue)
	for _, f := range []struct {
		of   bootorder.File
		name string
		into *bootmedium.File
	}{{m.Load.Kernel, kernel, &contents.Kernel}, {m.Load.Initramfs, initramfs, &contents.Ramdisk}} {
		name := f.name
		if f.of.URL != "" {
			if name = ""; f.of.ID == "" {
				return nil, "", nil, fmt.Errorf("a file of the node's own is not in the rack's cache: %w", fs.ErrNotExist)
			}
		} else if name == "" {
			return nil, "", nil, ipxescript.ErrNoRamdisk
		}
		from := func() (bootmedium.File, func(), error) { return c.Open(f.of.ID, name) }
		if name != "" { // what is in the cache never changes
			opens := from
			from = func() (bootmedium.File, func(), error) { return c.held.open(place{code, bootfiles.Plain(name)}, opens) }
		}
		file, close, err := from()
		if err != nil {
			return nil, "", nil, err
		}
		open = append(open, close)
		*f.into = file
	}
	if image, err = c.Loader.Image(contents); err != nil {
		return nil, "", nil, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s %s %q", image.Size(), m.Load.Kernel.ID, m.Load.Initramfs.ID, contents.NetworkData, contents.Params))
	return image, hex.EncodeToString(sum[:16]), closeAll, nil
}

// Check says why a medium cannot be made of the files that are here.
func Check(c Config, m Medium) error {
	_, _, done, err := web{Config: c, held: &held{}}.image(m, "")
	if err == nil {
		done()
	}
	return err
}

// note tells the journal that the medium is read, at its first byte: BMCs read in many parts.
func (c web) note(r *http.Request, m Medium, size int64) {
	part := r.Header.Get("Range")
	if r.Method != http.MethodGet || part != "" && !strings.HasPrefix(part, "bytes=0-") || len(m.Node.Ports) == 0 {
		return
	}
	c.Journal.Seen(m.Node.Ports[0].Address, netboot.PhaseMedium, fmt.Sprintf("its first bytes are read, of %.1f MB", float64(size)/1e6))
}

// counter counts what is sent.
type counter struct {
	http.ResponseWriter
	sent int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.sent += int64(n)
	return n, err
}

func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
