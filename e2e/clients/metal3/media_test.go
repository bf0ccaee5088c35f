package metal3

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// inserted reports whether a drive of the host has an image in it.
func (h *host) inserted() bool {
	h.t.Helper()
	var drives []struct {
		Image      string   `json:"image"`
		Inserted   bool     `json:"inserted"`
		MediaTypes []string `json:"media_types"`
	}
	if err := nodes.GetVirtualMedia(h.t.Context(), h.o.client, h.node).ExtractInto(&drives); err != nil {
		h.t.Fatal(err)
	}
	for _, d := range drives {
		if d.Inserted {
			return true
		}
	}
	return false
}

func (h *host) attach(url string) {
	h.t.Helper()
	if err := nodes.AttachVirtualMedia(h.t.Context(), h.o.client, h.node, nodes.AttachVirtualMediaOpts{DeviceType: nodes.VirtualMediaCD, ImageURL: url}).ExtractErr(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) detach() {
	h.t.Helper()
	if err := nodes.DetachVirtualMedia(h.t.Context(), h.o.client, h.node,
		nodes.DetachVirtualMediaOpts{DeviceTypes: []nodes.VirtualMediaDeviceType{nodes.VirtualMediaCD}}).ExtractErr(); err != nil {
		h.t.Fatal(err)
	}
}

func TestDataImage(t *testing.T) {
	h := ready(t, "data", "52:54:00:3a:00:60", fake())
	h.until("provision", h.provision(disk))
	h.roundOfMedia()
}

// roundOfMedia attaches an image, replaces it and takes it out.
func (h *host) roundOfMedia() {
	h.t.Helper()
	idle := func() (turn, error) { n, err := h.get(); return turn{again: n == nil || n.Reservation != ""}, err }
	for _, url := range []string{"http://192.0.2.1/data.iso", "http://192.0.2.1/other.iso"} {
		h.until("be idle", idle)
		h.attach(url)
		h.until("be attached", func() (turn, error) { return turn{again: !h.inserted()}, nil })
	}
	h.until("be idle", idle)
	h.detach()
	h.until("be detached", func() (turn, error) { return turn{again: h.inserted()}, nil })
}
