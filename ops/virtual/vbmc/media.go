package vbmc

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const mediaPath = managerPath + "/VirtualMedia"

const (
	cdPath     = mediaPath + "/Cd"
	stickPath  = mediaPath + "/UsbStick"
	floppyPath = mediaPath + "/Floppy"
)

// slot is a virtual drive as the BMC has it.
type slot struct {
	path, id, name string
	types          []string
}

var (
	cdSlot     = slot{cdPath, "Cd", "Virtual CD", []string{"CD", "DVD"}}
	stickSlot  = slot{stickPath, "UsbStick", "Virtual USB Stick", []string{"USBStick"}}
	floppySlot = slot{floppyPath, "Floppy", "Virtual Floppy", []string{"Floppy"}}

	// diskSlots are those whose drives the computer sees while an image is in them.
	diskSlots = []slot{stickSlot, floppySlot}
)

// Inserted returns the URL of the image in the virtual CD drive, empty for none.
func (b *BMC) Inserted() string {
	if b.cfg.NoCD {
		return ""
	}
	image, _ := b.inside()
	return image
}

// InsertedStick returns the URL of the image in the virtual USB stick, empty for none.
func (b *BMC) InsertedStick() string { return b.insertedDisk(stickSlot) }

// InsertedFloppy returns the URL of the image in the virtual floppy drive, empty for none.
func (b *BMC) InsertedFloppy() string { return b.insertedDisk(floppySlot) }

func (b *BMC) insertedDisk(s slot) string {
	d, ok := b.diskDrive(s)
	if !ok {
		return ""
	}
	image, _, _ := d.held()
	return image
}

// inside is the image in the drive, and why the computer cannot read it.
func (b *BMC) inside() (image string, problem error) {
	if image := b.hollowed(); image != "" {
		return image, nil
	}
	if d, ok := b.computer.(MediaDrive); ok {
		return d.Medium()
	}
	b.mediumMu.Lock()
	defer b.mediumMu.Unlock()
	return b.medium, nil
}

// diskDrive is what the computer does with the drive of a slot of diskSlots.
type diskDrive struct {
	held   func() (image string, problem, err error)
	insert func(ctx context.Context, image string) error
	eject  func(ctx context.Context) error
}

// diskDrive returns the computer's drive of a slot, if it has one.
func (b *BMC) diskDrive(s slot) (d diskDrive, ok bool) {
	switch s.path {
	case stickPath:
		if of, can := b.computer.(StickDrive); can {
			d = diskDrive{of.Stick, of.InsertStick, of.EjectStick}
		}
	case floppyPath:
		if of, can := b.computer.(FloppyDrive); can {
			d = diskDrive{of.Floppy, of.InsertFloppy, of.EjectFloppy}
		}
	}
	if d.held == nil {
		return d, false
	}
	_, _, err := d.held()
	return d, able(err)
}

func (b *BMC) cd() object {
	image, problem := b.inside()
	return b.showTrust(cdSlot, cdSlot.show(image, problem))
}

// drives are the virtual drives that the BMC has.
func (b *BMC) drives() (list []slot) {
	if !b.cfg.NoCD {
		list = append(list, cdSlot)
	}
	for _, s := range diskSlots {
		if _, has := b.diskDrive(s); has {
			list = append(list, s)
		}
	}
	return list
}

// of answers 404 where the BMC has no such drive.
func (s slot) of(do handler) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		if !slices.ContainsFunc(b.drives(), func(is slot) bool { return is.path == s.path }) {
			notFound(w, r)
			return
		}
		do(b, w, r)
	}
}

// withDisk answers 404 where the computer has no drive of the slot.
func (s slot) withDisk(do func(s slot, b *BMC, d diskDrive, w http.ResponseWriter, r *http.Request)) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		d, ok := b.diskDrive(s)
		if !ok {
			notFound(w, r)
			return
		}
		do(s, b, d, w, r)
	}
}

func (s slot) show(image string, problem error) object {
	o := object{
		"MediaTypes": s.types, "Inserted": image != "", "WriteProtected": true, "ConnectedVia": "NotConnected", "Status": healthy(true),
		"Actions": object{
			"#VirtualMedia.InsertMedia": object{"target": s.path + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  object{"target": s.path + "/Actions/VirtualMedia.EjectMedia"},
		},
	}
	if image != "" {
		o["Image"], o["ConnectedVia"] = image, "URI"
	}
	if problem != nil {
		o["ConnectedVia"] = "NotConnected"
		o["Status"] = object{"State": "Enabled", "Health": "Critical", "Conditions": []object{{
			"MessageId": registry + "OperationFailed", "Message": problem.Error(), "MessageArgs": []string{}, "Severity": "Critical"}}}
	}
	return resource(s.path, "VirtualMedia.v1_3_2.VirtualMedia", s.id, s.name, o)
}

// Of the ways to bring an image to a drive (VirtualMedia.v1_3_2, TransferMethod), it is
// read while the computer reads, and it is never written.
const stream = "Stream"

func (b *BMC) insertMedia(w http.ResponseWriter, r *http.Request) {
	image, ok := cdSlot.asked(w, r)
	if !ok || !b.admits(cdSlot, image, w, r) {
		return
	}
	b.insert(w, r, image)
}

// admits refuses an image whose server the drive does not trust.
func (b *BMC) admits(s slot, image string, w http.ResponseWriter, r *http.Request) bool {
	if err := b.untrusted(r.Context(), s, image); err != nil {
		refusal{http.StatusBadRequest, "ActionParameterValueError", "The server of the Image cannot be verified: " + err.Error()}.write(w)
		return false
	}
	return true
}

// asked is the image that an InsertMedia brings; not ok: it was refused.
func (s slot) asked(w http.ResponseWriter, r *http.Request) (image string, ok bool) {
	const action = "VirtualMedia.InsertMedia"
	body, ok := decodeAction(w, r)
	if !ok {
		return "", false
	}
	var kind, protocol string
	inserted, protected, method := true, true, stream
	e := body.parameters(action, map[string]any{"Image": &image, "Inserted": &inserted, "WriteProtected": &protected,
		"MediaType": &kind, "TransferMethod": &method, "TransferProtocolType": &protocol}, "Image")
	u, err := url.Parse(image)
	refuse := func(message, text string) { e = &refusal{http.StatusBadRequest, message, text} }
	switch {
	case e != nil:
	case image == "":
		refuse("ActionParameterMissing", "The action "+action+" requires the parameter Image.")
	case err != nil:
		refuse("ActionParameterValueFormatError", "The parameter Image of the action "+action+" is not a URI.")
	case !inserted:
		refuse("ActionParameterValueError", "The parameter Inserted of the action "+action+" has to be true: an image in the drive is connected.")
	case !protected:
		refuse("ActionParameterValueError", "The parameter WriteProtected of the action "+action+" has to be true: the drive does not write.")
	case kind != "" && !slices.Contains(s.types, kind):
		refuse("ActionParameterValueNotInList", "The parameter MediaType of the action "+action+" is "+strings.Join(s.types, " or ")+".")
	case method != stream:
		refuse("ActionParameterValueNotInList", "The parameter TransferMethod of the action "+action+" is "+stream+".")
	case protocol != "" && !strings.EqualFold(protocol, u.Scheme):
		refuse("ActionParameterValueConflict", "The parameter TransferProtocolType of the action "+action+" is another than that of the Image.")
	}
	if e != nil {
		e.write(w)
		return "", false
	}
	return image, true
}

// full refuses a medium for a drive that holds one.
var full = refusal{http.StatusConflict, "ResourceInUse", "The drive holds a medium: eject it first."}

func (s slot) showDisk(b *BMC, d diskDrive, w http.ResponseWriter, _ *http.Request) {
	image, problem, _ := d.held()
	write(w, http.StatusOK, b.showTrust(s, s.show(image, problem)))
}

func (s slot) insertDisk(b *BMC, d diskDrive, w http.ResponseWriter, r *http.Request) {
	image, ok := s.asked(w, r)
	if !ok || !b.admits(s, image, w, r) {
		return
	}
	if inside, _, _ := d.held(); inside != "" {
		full.write(w)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	if err := d.insert(ctx, image); err != nil {
		b.refused(w, "ActionParameterValueError", "inserting the image", err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (slot) ejectDisk(b *BMC, d diskDrive, w http.ResponseWriter, r *http.Request) {
	body, ok := decodeAction(w, r)
	if !ok {
		return
	}
	if e := body.parameters("VirtualMedia.EjectMedia", nil); e != nil {
		e.write(w)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	if err := d.eject(ctx); err != nil {
		b.refused(w, "ActionNotSupported", "ejecting the image", err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *BMC) insert(w http.ResponseWriter, r *http.Request, image string) {
	d, ok := b.computer.(MediaDrive)
	if !ok {
		b.mediumMu.Lock()
		defer b.mediumMu.Unlock()
		if b.medium != "" {
			full.write(w)
			return
		}
		b.medium = image
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if inside, _ := b.inside(); inside != "" {
		full.write(w)
		return
	}
	if b.hollow(image) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	if err := d.InsertMedium(ctx, image); err != nil {
		b.refused(w, "ActionParameterValueError", "inserting the image", err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *BMC) ejectMedia(w http.ResponseWriter, r *http.Request) {
	body, ok := decodeAction(w, r)
	if !ok {
		return
	}
	if e := body.parameters("VirtualMedia.EjectMedia", nil); e != nil {
		e.write(w)
		return
	}
	b.mediumMu.Lock()
	b.hollowImage = ""
	b.mediumMu.Unlock()
	if d, ok := b.computer.(MediaDrive); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
		defer cancel()
		if err := d.EjectMedium(ctx); err != nil {
			b.refused(w, "ActionNotSupported", "ejecting the image", err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	b.mediumMu.Lock()
	defer b.mediumMu.Unlock()
	b.medium = ""
	w.WriteHeader(http.StatusNoContent)
}
