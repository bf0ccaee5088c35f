package bootweb

import (
	"io"
	"net/http"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// installer answers an installer that asks for its kickstart, or for a file, which it is sent to the rack's cache for.
func (c web) installer(w http.ResponseWriter, r *http.Request) {
	m, racks, err := c.Scripts.Installer(r.PathValue("node"), r.PathValue("boot"), peerOf(r))
	if err != nil {
		refuse(w, err)
		return
	}
	i := m.Order.Load.Installer
	image := i.Repository
	if image == "" {
		image = netboot.InstallerURL(racks.HTTP, m, netboot.InstallerImage+i.Ending)
	}
	to := ""
	switch r.PathValue("file") {
	case netboot.InstallerKickstart:
		c.kickstart(w, r, m, image)
		return
	case netboot.InstallerStage2 + "/images/install.img", netboot.InstallerStage2 + "/LiveOS/squashfs.img":
		to = i.Stage2.URL
	case netboot.InstallerImage + i.Ending:
		to = i.Image.URL
	}
	if to == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusFound)
}

func (c web) kickstart(w http.ResponseWriter, r *http.Request, m netboot.Machine, image string) {
	if c.Kickstarts == nil {
		http.NotFound(w, r)
		return
	}
	text, err := c.Kickstarts.Kickstart(r.Context(), m, image)
	if err != nil {
		if c.lines.OfMachine(m.UUID) {
			c.Log.Warn("a kickstart could not be made; its installer waits or gives up", "node", m.UUID, "from", r.RemoteAddr, "error", err)
		}
		http.Error(w, "the kickstart cannot be made now; the log of rackd says why", http.StatusServiceUnavailable)
		return
	}
	if c.lines.OfMachine(m.UUID) {
		c.Log.Info("kickstart", "node", m.UUID, "from", r.RemoteAddr, "bytes", len(text))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	io.WriteString(w, text) // an installer that left asks again
}
