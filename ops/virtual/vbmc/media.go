package vbmc

import (
	"net/http"
)

const mediaPath = managerPath + "/VirtualMedia"

const cdPath = mediaPath + "/Cd"

// Inserted returns the URL of the image in the virtual CD drive, empty for none.
func (b *BMC) Inserted() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.medium
}

func (b *BMC) cd() object {
	medium := b.Inserted()
	o := object{
		"MediaTypes": []string{"CD", "DVD"}, "Inserted": medium != "", "WriteProtected": true, "ConnectedVia": "NotConnected",
		"Actions": object{
			"#VirtualMedia.InsertMedia": object{"target": cdPath + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  object{"target": cdPath + "/Actions/VirtualMedia.EjectMedia"},
		},
	}
	if medium != "" {
		o["Image"], o["ConnectedVia"] = medium, "URI"
	}
	return resource(cdPath, "VirtualMedia.v1_3_2.VirtualMedia", "Cd", "Virtual CD", o)
}

func (b *BMC) insertMedia(w http.ResponseWriter, r *http.Request) {
	var body struct{ Image string }
	if !decode(w, r, &body) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case body.Image == "":
		refusal{http.StatusBadRequest, "ActionParameterMissing", "The action VirtualMedia.InsertMedia requires the parameter Image."}.write(w)
		return
	case b.medium != "":
		refusal{http.StatusConflict, "ResourceInUse", "The drive holds a medium: eject it first."}.write(w)
		return
	}
	b.medium = body.Image
	w.WriteHeader(http.StatusNoContent)
}

func (b *BMC) ejectMedia(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.medium = ""
	w.WriteHeader(http.StatusNoContent)
}
