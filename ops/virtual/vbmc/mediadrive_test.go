package vbmc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

func TestMediaDrive(t *testing.T) {
	b, computer, c, _ := connectEquipped(t)
	drive, err := schemas.GetVirtualMedia(c, cdPath)
	if err != nil || gofish.Deref(drive.Inserted) || !drive.SupportsMediaInsert {
		t.Fatalf("drive %+v, %v", drive, err)
	}
	const image = "http://10.0.0.1/a.iso?token=1"
	computer.unreadable = errors.New("the server answers 404")
	inserting := schemas.VirtualMediaInsertMediaParameters{Image: image, Inserted: gofish.ToRef(true), WriteProtected: gofish.ToRef(true)}
	if _, err := drive.InsertMedia(&inserting); err == nil || !strings.Contains(err.Error(), "404") || computer.image != "" {
		t.Errorf("an image that cannot be read: %v", err)
	}
	computer.unreadable = nil
	inserting.TransferMethod, inserting.TransferProtocolType = gofish.ToRef(schemas.StreamTransferMethod), gofish.ToRef(schemas.HTTPTransferProtocolType)
	inserting.MediaType = schemas.CDVirtualMediaType
	if _, err := drive.InsertMedia(&inserting); err != nil {
		t.Fatal(err)
	}
	drive, err = schemas.GetVirtualMedia(c, cdPath)
	if err != nil || !gofish.Deref(drive.Inserted) || drive.Image != image || drive.ConnectedVia != schemas.URIConnectedVia || b.Inserted() != image {
		t.Errorf("drive %+v, %v", drive, err)
	}
	refuses(t, b, "POST", cdPath+"/Actions/VirtualMedia.InsertMedia", `{"Image":"http://x/b.iso"}`, 409, "eject it first")
	computer.found = errors.New("the image cannot be read")
	if got := body(t, b, cdPath); got["ConnectedVia"] != "NotConnected" || got["Inserted"] != true || !strings.Contains(ask(b, "GET", cdPath, "").Body.String(), computer.found.Error()) {
		t.Errorf("a medium that the start did not find: %v", got)
	}
	computer.found = nil
	if _, err := drive.EjectMedia(); err != nil || computer.image != "" {
		t.Errorf("eject: %v, image %q", err, computer.image)
	}
}

// A drive takes or refuses each parameter by its name, with a computer behind it or not.
func TestInsertMediaRefusals(t *testing.T) {
	plain, _, _ := serve(t)
	full, computer, _, _ := connectEquipped(t)
	for _, b := range []*BMC{plain, full} {
		for _, c := range []struct{ sent, says string }{
			{`{}`, "Image"},
			{`{"Image":""}`, "Image"},
			{`{"Image":":"}`, "Image"},
			{`{"Image":"http://x/a","Inserted":false}`, "Inserted"},
			{`{"Image":"http://x/a","WriteProtected":false}`, "WriteProtected"},
			{`{"Image":"http://x/a","MediaType":"USBStick"}`, "MediaType"},
			{`{"Image":"http://x/a","TransferMethod":"Upload"}`, "TransferMethod"},
			{`{"Image":"http://x/a","TransferProtocolType":"NFS"}`, "TransferProtocolType"},
			{`{"Image":"http://x/a","UserName":"u","Password":"hidden"}`, "Password"},
		} {
			refuses(t, b, "POST", cdPath+"/Actions/VirtualMedia.InsertMedia", c.sent, 400, c.says)
		}
		refuses(t, b, "POST", cdPath+"/Actions/VirtualMedia.EjectMedia", `{"Force":true}`, 400, "Force")
		if b.Inserted() != "" {
			t.Errorf("a refused insert left %q", b.Inserted())
		}
		for _, w := range b.Journal.Writes() {
			if strings.Contains(w.Body, "hidden") {
				t.Errorf("the journal holds a password: %s", w.Body)
			}
		}
	}
	refuses(t, full, "POST", cdPath+"/Actions/VirtualMedia.InsertMedia", `{"Image":"ftp://x/a"}`, 400, "it reads HTTP")
	if computer.image != "" {
		t.Error(computer.image)
	}
	if w := ask(plain, "POST", cdPath+"/Actions/VirtualMedia.EjectMedia", ""); w.Code != 204 {
		t.Errorf("eject without a body: %d %s", w.Code, w.Body)
	}
}

// A BMC with a second drive lists it as a USB stick, and takes and gives its image back apart from that of the CD. One without has none.
func TestStickDrive(t *testing.T) {
	computer := &withAStick{}
	b, err := New(Config{Username: "admin", Password: "secret-word", UEFI: true, Name: "uefi-0", MAC: "52:54:00:00:00:01"}, computer)
	if err != nil {
		t.Fatal(err)
	}
	insert, eject := stickPath+"/Actions/VirtualMedia.InsertMedia", stickPath+"/Actions/VirtualMedia.EjectMedia"
	if got := body(t, b, mediaPath); len(got["Members"].([]any)) != 2 {
		t.Errorf("drives: %v", got["Members"])
	}
	refuses(t, b, "POST", insert, `{"Image":"http://x/a","MediaType":"CD"}`, 400, "MediaType")
	refuses(t, b, "POST", insert, `{"Image":"ftp://x/a"}`, 400, "it reads HTTP")
	if w := ask(b, "POST", insert, `{"Image":"http://x/c.img","MediaType":"USBStick"}`); w.Code != 204 || b.InsertedStick() != "http://x/c.img" || b.Inserted() != "" {
		t.Fatalf("insert: %d %s; stick %q, CD %q", w.Code, w.Body, b.InsertedStick(), b.Inserted())
	}
	if got := body(t, b, stickPath); got["Inserted"] != true || got["Image"] != "http://x/c.img" || fmt.Sprint(got["MediaTypes"]) != "[USBStick]" {
		t.Errorf("the stick: %v", got)
	}
	refuses(t, b, "POST", insert, `{"Image":"http://x/b.img"}`, 409, "eject it first")
	if w := ask(b, "POST", eject, ""); w.Code != 204 || computer.stick != "" {
		t.Errorf("eject: %d %s, %q", w.Code, w.Body, computer.stick)
	}
	computer.none = no("the machine has no USB stick")
	if got := body(t, b, mediaPath); len(got["Members"].([]any)) != 1 || ask(b, "GET", stickPath, "").Code != 404 || ask(b, "POST", insert, `{"Image":"http://x/a"}`).Code != 404 {
		t.Errorf("without a second drive: %v", got["Members"])
	}
}

// A BMC with a drive of a floppy lists it beside the others, and takes and gives its image back apart from theirs. The computer is not told
// to boot from it.
func TestFloppyDrive(t *testing.T) {
	computer := &withAFloppy{}
	b, err := New(Config{Username: "admin", Password: "secret-word", UEFI: true, Name: "uefi-0", MAC: "52:54:00:00:00:01"}, computer)
	if err != nil {
		t.Fatal(err)
	}
	insert, eject := floppyPath+"/Actions/VirtualMedia.InsertMedia", floppyPath+"/Actions/VirtualMedia.EjectMedia"
	if got := body(t, b, mediaPath); len(got["Members"].([]any)) != 3 {
		t.Errorf("drives: %v", got["Members"])
	}
	refuses(t, b, "POST", insert, `{"Image":"http://x/a","MediaType":"USBStick"}`, 400, "MediaType")
	if w := ask(b, "POST", insert, `{"Image":"http://x/p.img","MediaType":"Floppy"}`); w.Code != 204 || b.InsertedFloppy() != "http://x/p.img" || b.InsertedStick()+b.Inserted() != "" {
		t.Fatalf("insert: %d %s; floppy %q, stick %q, CD %q", w.Code, w.Body, b.InsertedFloppy(), b.InsertedStick(), b.Inserted())
	}
	if got := body(t, b, floppyPath); got["Inserted"] != true || got["Image"] != "http://x/p.img" || fmt.Sprint(got["MediaTypes"]) != "[Floppy]" {
		t.Errorf("the floppy: %v", got)
	}
	refuses(t, b, "POST", insert, `{"Image":"http://x/b.img"}`, 409, "eject it first")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"Floppy","BootSourceOverrideEnabled":"Once"}}`, 400, "Floppy")
	if w := ask(b, "POST", eject, ""); w.Code != 204 || computer.floppy != "" {
		t.Errorf("eject: %d %s, %q", w.Code, w.Body, computer.floppy)
	}
	plain, _, _ := serve(t)
	if ask(plain, "GET", floppyPath, "").Code != 404 || ask(plain, "POST", insert, `{"Image":"http://x/a"}`).Code != 404 {
		t.Error("a BMC without a drive of a floppy has one")
	}
}

// A BMC without a drive of a CD shows its stick alone. The machine may be told to boot from that, and not from a CD.
func TestStickAlone(t *testing.T) {
	computer := &withAStick{}
	b, err := New(Config{Username: "admin", Password: "secret-word", UEFI: true, Name: "uefi-0", MAC: "52:54:00:00:00:01", NoCD: true}, computer)
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, b, mediaPath)["Members"]; fmt.Sprint(got) != fmt.Sprint([]any{map[string]any{"@odata.id": stickPath}}) {
		t.Errorf("drives: %v", got)
	}
	for method, path := range map[string]string{"GET": cdPath, "POST": cdPath + "/Actions/VirtualMedia.InsertMedia", "PATCH": cdPath} {
		if w := ask(b, method, path, `{"Image":"http://x/a"}`); w.Code != 404 || computer.image != "" || b.Inserted() != "" {
			t.Errorf("%s %s: %d", method, path, w.Code)
		}
	}
	if got := fmt.Sprint(body(t, b, systemPath)["Boot"].(map[string]any)["BootSourceOverrideTarget@Redfish.AllowableValues"]); strings.Contains(got, "Cd") || !strings.Contains(got, "Usb") {
		t.Errorf("boot sources: %s", got)
	}
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Once"}}`, 400, "Cd")
	if w := ask(b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"Usb","BootSourceOverrideEnabled":"Once"}}`); w.Code != 200 {
		t.Fatalf("boot from the stick: %d %s", w.Code, w.Body)
	}
	if device, once := computer.BootOverride(); device != Stick || !once {
		t.Errorf("the computer boots %q, once %t", device, once)
	}
	if got := body(t, b, systemPath)["Boot"].(map[string]any); got["BootSourceOverrideTarget"] != "Usb" {
		t.Errorf("boot: %v", got)
	}
}
