package bootweb

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// A kickstart that is taken more slowly is cut off.
const (
	sendGrace             = 30 * time.Second
	slowestBytesPerSecond = 64 << 10
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
	made, done, err := c.turns.take(r.Context(), m.UUID)
	if err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "other kickstarts are being made: ask again", http.StatusServiceUnavailable)
		return
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), makeWithin)
	text, err := c.Kickstarts.Kickstart(ctx, m, image)
	cancel()
	made()
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
	control := http.NewResponseController(w)
	if control.SetWriteDeadline(time.Now().Add(sendGrace+time.Duration(len(text)/slowestBytesPerSecond)*time.Second)) == nil { // others of the node wait
		defer control.SetWriteDeadline(time.Time{}) // the connection may go on
	}
	io.WriteString(w, text) // an installer that left asks again
}
