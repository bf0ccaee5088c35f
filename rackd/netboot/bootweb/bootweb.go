// Package bootweb serves machines over HTTP: the generated boot script, and the
// boot files. It needs no authentication, see rackd/netboot.
//
// It may import rackd/netboot and what is below it.
package bootweb

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// Config of the boot web.
type Config struct {
	Directory netboot.Directory
	Journal   netboot.Journal
	Files     *bootfiles.Files
	Ramdisk   ipxescript.Ramdisk
	// Discovery: strangers boot the ramdisk; else they get 404.
	Discovery bool
	Log       *slog.Logger
}

// Handler serves /boot/script and /files/. Safe for concurrent use.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /boot/script", c.script)
	mux.HandleFunc("GET /files/{name}", c.file)
	return mux
}

// script answers ?mac= or ?uuid=, as Ironic's ipxe_config did by port_address and
// node_uuid.
func (c Config) script(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	mac, id := "", q.Get("uuid")
	if text := q.Get("mac"); text != "" {
		hw, err := net.ParseMAC(text)
		if err != nil || len(hw) != 6 {
			http.Error(w, "mac is not a MAC address", http.StatusBadRequest)
			return
		}
		mac = hw.String()
	}
	var m netboot.Machine
	var ok bool
	switch {
	case id != "" && uuid.Validate(id) != nil:
		http.Error(w, "uuid is not a UUID", http.StatusBadRequest)
		return
	case id != "":
		m, ok = c.Directory.ByUUID(id)
	case mac != "":
		m, ok = c.Directory.ByMAC(mac)
	default:
		http.Error(w, "name the machine by mac or uuid", http.StatusBadRequest)
		return
	}
	if !ok && !c.Discovery {
		c.Log.Warn("boot script refused: unknown machine", "mac", mac, "uuid", id, "from", r.RemoteAddr)
		http.Error(w, "no node has this address: enrol it and create its port first", http.StatusNotFound)
		return
	}
	if !ok {
		m = netboot.Machine{State: "unknown", Order: netboot.Ramdisk}
	}
	if m.Order == netboot.Refuse {
		c.Log.Warn("machine has nothing to boot", "node", m.UUID, "mac", mac, "state", string(m.State), "reason", m.Reason)
	}
	c.Journal.Seen(mac, netboot.PhaseScript, fmt.Sprintf("state %s", m.State))
	w.Header().Set("Content-Type", "text/plain; charset=us-ascii")
	w.Header().Set("Cache-Control", "no-store")
	io.WriteString(w, ipxescript.Write(m, mac, c.Ramdisk))
}

func (c Config) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	f, err := c.Files.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		http.Error(w, "boot file cannot be read", http.StatusInternalServerError)
		return
	}
	if hw, err := net.ParseMAC(r.URL.Query().Get("mac")); err == nil && name == bootfiles.Kernel {
		c.Journal.Seen(strings.ToLower(hw.String()), netboot.PhaseKernel, fmt.Sprintf("%.1f MB by HTTP", float64(info.Size())/1e6))
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, name, info.ModTime(), f)
}
