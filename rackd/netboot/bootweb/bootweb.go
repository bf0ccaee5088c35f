// Package bootweb serves machines over HTTP: the generated boot script, and the
// boot files.
//
// It may import rackd/netboot and what is below it, rackd/sendfile and rackd/strangers. Every path is open to each host that
// reaches the listener, because firmware has no credentials (see rackd/netboot):
//
//	GET /boot/script                 what a machine is to do; by MAC or UUID
//	GET /boot/program/{mac}/{name}   what its firmware is to start without a boot program; the name says for which architecture
//	GET /boot/parameters             what its agent would have been told by a script; by MAC
//	GET /boot/installer/{node}/{boot}/…  an installer's kickstart, which holds the token of its boot, and its files
//	GET /files/{name}                the boot files: programs, kernel and ramdisk, alike for all
//
// Nothing here changes anything. Images are served by rackd/imagecache.
package bootweb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/sendfile"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Config of the boot web.
type Config struct {
	Journal netboot.Journal
	Metrics *netboot.Metrics // nil: nothing is counted
	Files   *bootfiles.Files
	// Scripts answers /boot/script.
	Scripts *bootscript.Scripts
	// Kickstarts makes those of installers; nil: there are none.
	Kickstarts Kickstarts
	// Strangers bounds what is logged of them; nil: by the defaults.
	Strangers *strangers.Gate
	Log       *slog.Logger
}

// Kickstarts makes the kickstart of a boot. Safe for concurrent use.
type Kickstarts interface {
	// Kickstart returns the text for a machine that boots an installer; image is where that finds the content of the disk.
	Kickstart(ctx context.Context, m netboot.Machine, image string) (string, error)
}

type web struct {
	Config
	lines *strangers.LineCount
	turns *turns
}

// Handler serves /boot/script and /files/. Safe for concurrent use.
func Handler(c Config) http.Handler {
	if c.Strangers == nil {
		c.Strangers = strangers.New(strangers.Budget{}, nil, c.Log)
	}
	w := web{c, c.Strangers.Lines("the boot web"), newTurns()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+netboot.ScriptPath, w.script)
	mux.HandleFunc("GET "+netboot.ProgramPath+"{mac}/{name}", w.program)
	mux.HandleFunc("GET "+agentapi.ParametersPath, w.parameters)
	mux.HandleFunc("GET "+netboot.InstallerPath+"{node}/{boot}/{file...}", w.installer)
	mux.HandleFunc("GET /files/{name}", func(rw http.ResponseWriter, r *http.Request) {
		w.file(rw, r, r.PathValue("name"), r.URL.Query().Get("mac"))
	})
	return mux
}

// script answers ?mac= or ?uuid=, as Ironic's ipxe_config did by port_address and
// node_uuid. A machine that could not boot its volume says so beside it.
func (c web) script(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var text string
	var err error
	from := peerOf(r)
	switch id := q.Get("uuid"); {
	case id != "":
		text, err = c.Scripts.ForUUID(id, "http", from)
	case q.Get(netboot.AfterVolume) == netboot.PhaseVolume:
		text, err = c.Scripts.AfterVolume(q.Get("mac"), "http", from)
	default:
		text, err = c.Scripts.ForMAC(q.Get("mac"), "http", from)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=us-ascii")
	w.Header().Set("Cache-Control", "no-store")
	io.WriteString(w, text) // a client that left asks again
}

// peerOf is the address of a caller; zero, which proves nothing, for one without.
func peerOf(r *http.Request) (from netip.Addr) {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = peer.Addr().Unmap()
	}
	return from
}

// program answers firmware with the file that its machine is to start now.
func (c web) program(w http.ResponseWriter, r *http.Request) {
	mac := r.PathValue("mac")
	name, err := c.Scripts.Program(mac, r.PathValue("name") == netboot.ProgramName(true), peerOf(r))
	if err != nil {
		refuse(w, err)
		return
	}
	c.file(w, r, name, mac)
}

// parameters answers the agent of a ramdisk that came without a script.
func (c web) parameters(w http.ResponseWriter, r *http.Request) {
	words, err := c.Scripts.Parameters(r.URL.Query().Get(agentapi.ParametersMAC), peerOf(r))
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=us-ascii")
	w.Header().Set("Cache-Control", "no-store")
	io.WriteString(w, words+"\n") // an agent that left asks again
}

// refuse answers with an error of bootscript.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	for is, s := range map[error]int{bootscript.ErrUnknown: http.StatusNotFound, bootscript.ErrNothing: http.StatusNotFound,
		bootscript.ErrForeign: http.StatusForbidden, bootscript.ErrLater: http.StatusServiceUnavailable} {
		if errors.Is(err, is) {
			status = s
		}
	}
	http.Error(w, err.Error(), status)
}

// file sends a boot file, of which the machine with that MAC address is told to have asked for it.
func (c web) file(w http.ResponseWriter, r *http.Request, name, mac string) {
	f, err := c.Files.Open(name)
	if err != nil {
		c.Metrics.File("http", "missing", 0)
		if c.lines.OfStranger() {
			c.Log.Warn("boot file refused", "file", strangers.Name(name), "from", r.RemoteAddr, "error", strangers.Cause(err))
		}
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		c.Metrics.File("http", "failed", 0)
		http.Error(w, "boot file cannot be read", http.StatusInternalServerError)
		return
	}
	c.note(r, name, mac, info.Size())
	w.Header().Set("Content-Type", "application/octet-stream")
	if strings.HasSuffix(name, ".efi") {
		w.Header().Set("Content-Type", "application/efi") // UEFI HTTP boot looks at it
	}
	counted := &counter{ResponseWriter: w}
	http.ServeContent(counted, r, name, info.ModTime(), f)
	c.Metrics.File("http", "ok", counted.sent)
}

// note tells the journal that a machine fetches its kernel or ramdisk. Later parts
// of the same file (iPXE does not, others do) are not told again.
func (c web) note(r *http.Request, name, mac string, size int64) {
	phase := map[string]string{bootfiles.Kernel: netboot.PhaseKernel, bootfiles.Ramdisk: netboot.PhaseRamdisk, bootfiles.RescueRamdisk: netboot.PhaseRamdisk}[bootfiles.Plain(name)]
	if bootfiles.IsProgram(bootfiles.Plain(name)) {
		phase = netboot.PhaseProgram
	}
	part := r.Header.Get("Range")
	if phase == "" || r.Method != http.MethodGet || part != "" && !strings.HasPrefix(part, "bytes=0-") {
		return
	}
	if hw, err := net.ParseMAC(mac); err == nil && len(hw) == 6 {
		way := "HTTP"
		if r.TLS != nil {
			way = "HTTPS"
		}
		c.Journal.Seen(hw.String(), phase, fmt.Sprintf("%.1f MB by %s", float64(size)/1e6, way))
	}
}

// counter counts what is sent. It hides no ability that ServeContent needs: files go
// out through ReadFrom, which ends in sendfile.
type counter struct {
	http.ResponseWriter
	sent int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.sent += int64(n)
	return n, err
}

func (c *counter) ReadFrom(r io.Reader) (int64, error) {
	n, err := sendfile.Copy(c.ResponseWriter, r)
	c.sent += n
	return n, err
}

func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
