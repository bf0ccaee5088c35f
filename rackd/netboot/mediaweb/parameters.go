package mediaweb

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/paramdisk"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// byMedium is the parameter that has a ramdisk look for a disk with more of them. It is on that disk as well, where Ironic has it.
const byMedium = agentapi.ParamBootMethod + "=" + agentapi.BootMethodMedium

// serveParameters serves the disk with the parameters of a boot. Its size is always the same, and it is made for each request.
func (c web) serveParameters(w http.ResponseWriter, r *http.Request) {
	m, ok := c.Medium(r.Context(), r.PathValue("node"), r.PathValue("code"))
	if !ok || !m.Parameters {
		c.Metrics.File("parameters", "missing", 0)
		if c.lines.OfStranger() {
			c.Log.Warn("parameters refused: the node has no boot with this code now", "node", strangers.Name(r.PathValue("node")), "from", r.RemoteAddr)
		}
		http.NotFound(w, r)
		return
	}
	image, err := paramdisk.Image(append(ipxescript.Params(m.Machine, c.Ramdisk(m.Machine)), byMedium))
	if err != nil {
		c.Metrics.File("parameters", "failed", 0)
		c.Log.Error("a medium of parameters cannot be made", "node", m.Node.UUID, "error", err)
		http.Error(w, "this rackd cannot make the medium; its log says why", http.StatusInternalServerError)
		return
	}
	control := http.NewResponseController(w)
	if control.SetWriteDeadline(time.Now().Add(grace+time.Duration(len(image)/slowestBytesPerSecond)*time.Second)) == nil {
		defer control.SetWriteDeadline(time.Time{}) // the connection may go on
	}
	sum := sha256.Sum256(image)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	counted := &counter{ResponseWriter: w}
	http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(image))
	c.Metrics.File("parameters", "ok", counted.sent)
}
