package node

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/protocol/packed"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/smbios"
)

// Format is the form of documents, which begins each that Append writes. Fields may be added
// without a new one, since readers skip those that they do not know; words and kinds of values
// may not.
const Format = 0x01

// ErrFormat means that a document is of a format that this program does not read: central is
// newer than the rackd that it writes to, or what lies there is no document.
var ErrFormat = errors.New("unknown format of a node document: upgrade this program to central's version")

// Fields of a document by their numbers, which never change. The UUID is in the document's
// key.
const (
	fieldName = iota + 1
	fieldGroup
	fieldDriver
	fieldGeneration
	fieldRevision
	_ // was a time, which older programs write
	fieldInterfaces
	fieldDriverInfo
	fieldProperties
	fieldInstanceInfo
	fieldInstanceUUID
	fieldTraits
	fieldPorts // lists of UUID, address and whether PXE is enabled
	fieldState
	fieldMaintenance
	fieldFault
	fieldAutomatedClean
	fieldDisablePowerOff
	fieldRetired
	fieldTargetRAID
	fieldKept    // JSON, as a text
	fieldCode    // of all before it, as a text; the last in a document
	fieldMachine // texts by name: uuid, serial
	fieldKey     // the id of the key that made the code, right before it
	fieldDisks   // JSON, as a text
)

// Append appends the document as it lies on the bus, under a key that names its node. It fails
// on a value that JSON cannot hold. What is empty is left out.
func (d *Document) Append(b []byte) ([]byte, error) {
	w := writer{b: append(b, Format)}
	w.number(fieldRevision, d.Revision) // first: it is asked for the most
	w.text(fieldDriver, d.Driver)
	w.text(fieldGroup, d.Group)
	w.ports(d.Ports)
	w.text(fieldName, d.Name)
	w.number(fieldGeneration, d.Generation)
	if len(d.Interfaces) > 0 {
		w.value(fieldInterfaces, d.Interfaces)
	}
	w.object(fieldDriverInfo, d.DriverInfo)
	w.object(fieldProperties, d.Properties)
	w.object(fieldInstanceInfo, d.InstanceInfo)
	w.text(fieldInstanceUUID, d.InstanceUUID)
	if len(d.Traits) > 0 {
		w.value(fieldTraits, d.Traits)
	}
	w.text(fieldState, string(d.State))
	w.flag(fieldMaintenance, d.Maintenance)
	w.text(fieldFault, d.Fault)
	if d.AutomatedClean != nil {
		w.b = packed.AppendBool(append(w.b, fieldAutomatedClean), *d.AutomatedClean)
	}
	w.flag(fieldDisablePowerOff, d.DisablePowerOff)
	w.flag(fieldRetired, d.Retired)
	w.object(fieldTargetRAID, d.TargetRAID)
	w.text(fieldKept, string(d.Kept))
	w.machine(d.Machine)
	w.text(fieldDisks, string(d.Disks))
	return w.b, w.err
}

// codeOfNode is the purpose of the codes of node documents.
const codeOfNode = "node"

// AppendSigned appends the document as Append does, with a code that shows a rack that central made it
// for this node: what says where secrets are sent lies beside them on the bus in clear. key is that
// of the node's group; the document names its generation.
func (d *Document) AppendSigned(b []byte, key *seal.Key) ([]byte, error) {
	at := len(b)
	b, err := d.Append(b)
	if err != nil {
		return b, err
	}
	b = packed.AppendText(append(b, fieldKey), key.ID())
	code := key.Code(codeOfNode, []byte(d.UUID), b[at:])
	return packed.AppendText(append(b, fieldCode), hex.EncodeToString(code)), nil
}

// Verify reports whether the holder of the group's key made the document that body is, as it lies on
// the bus, for the node uuid, and returns the document without its code and the id of its key. A code
// that something follows is none.
func Verify(uuid string, body []byte, key *seal.Key) (document []byte, made bool) {
	end := len(body) - codeField
	code, found := lastText(body, fieldCode, codeField)
	if !found {
		return nil, false
	}
	raw, err := hex.DecodeString(code)
	if err != nil || !key.CodeFits(raw, codeOfNode, []byte(uuid), body[:end]) {
		return nil, false
	}
	if keyNamed(body[:end]) != "" {
		end -= keyField
	}
	return body[:end], true
}

// KeyOf is the id of the key with which a document as it lies on the bus says that its code was made;
// empty if it does not say. Only Verify proves it.
func KeyOf(body []byte) (id string) {
	if _, found := lastText(body, fieldCode, codeField); found {
		id = keyNamed(body[:len(body)-codeField])
	}
	return id
}

// keyNamed is the id of a key that ends a document without its code; empty where no id does.
func keyNamed(document []byte) string {
	id, found := lastText(document, fieldKey, keyField)
	if _, err := hex.DecodeString(id); !found || err != nil {
		return ""
	}
	return id
}

// lastText is the text of the last field of a body, if that is the field and takes size bytes.
func lastText(body []byte, field byte, size int) (text string, found bool) {
	at := len(body) - size
	if at < 1 || body[at] != field {
		return "", false
	}
	r := packed.Read(body[at+1:])
	text = r.Text()
	return text, r.Err() == nil && !r.More()
}

// codeField and keyField are how many bytes these fields take.
var (
	codeField = len(packed.AppendText([]byte{fieldCode}, hex.EncodeToString(make([]byte, seal.CodeSize))))
	keyField  = len(packed.AppendText([]byte{fieldKey}, strings.Repeat("0", seal.IDSize)))
)

// writer writes fields; err is the first error.
type writer struct {
	b   []byte
	err error
}

func (w *writer) text(field byte, s string) {
	if s != "" {
		w.b = packed.AppendText(append(w.b, field), s)
	}
}

func (w *writer) flag(field byte, on bool) {
	if on {
		w.b = packed.AppendBool(append(w.b, field), on)
	}
}

func (w *writer) number(field byte, n int64) {
	if n != 0 {
		w.b = packed.AppendInt(append(w.b, field), n)
	}
}

func (w *writer) object(field byte, m map[string]any) {
	if len(m) > 0 {
		w.value(field, m)
	}
}

func (w *writer) value(field byte, v any) {
	var err error
	if w.b, err = packed.Append(append(w.b, field), v); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *writer) machine(s smbios.System) {
	texts := map[string]string{}
	for name, text := range map[string]string{"uuid": s.UUID, "serial": s.Serial, "sku": s.SKU} {
		if text != "" {
			texts[name] = text
		}
	}
	if len(texts) > 0 {
		w.value(fieldMachine, texts)
	}
}

func (w *writer) ports(list []Port) {
	if len(list) == 0 {
		return
	}
	w.b = packed.AppendCount(append(w.b, fieldPorts), len(list))
	for _, p := range list {
		w.b = packed.AppendText(packed.AppendCount(w.b, 3), p.UUID)
		w.b = packed.AppendBool(packed.AppendText(w.b, p.Address), p.PXEEnabled)
	}
}

// Read reads a document of the bus; uuid is the node's, from its key. The document refers to
// nothing of body.
func Read(uuid string, body []byte) (*Document, error) {
	if isJSON(body) {
		return readJSON(uuid, body)
	}
	d := &Document{UUID: uuid}
	if err := fields(body, d.field); err != nil {
		return nil, err
	}
	return d, nil
}

// fields calls f with the number of each field of a document and a reader of its value, of
// which f reads exactly that.
func fields(body []byte, f func(field byte, r *packed.Reader)) error {
	if len(body) == 0 || body[0] != Format {
		return fmt.Errorf("%w: it begins with %x, not with %02x", ErrFormat, body[:min(len(body), 1)], Format)
	}
	r := packed.Read(body[1:])
	for r.More() {
		f(r.Byte(), &r)
	}
	return r.Err()
}

func (d *Document) field(field byte, r *packed.Reader) {
	switch field {
	case fieldName:
		d.Name = r.Text()
	case fieldGroup:
		d.Group = r.Text()
	case fieldDriver:
		d.Driver = r.Text()
	case fieldGeneration:
		d.Generation = r.Int()
	case fieldRevision:
		d.Revision = r.Int()
	case fieldInterfaces:
		d.Interfaces = r.TextsByName()
	case fieldDriverInfo:
		d.DriverInfo = r.Object()
	case fieldProperties:
		d.Properties = r.Object()
	case fieldInstanceInfo:
		d.InstanceInfo = r.Object()
	case fieldInstanceUUID:
		d.InstanceUUID = r.Text()
	case fieldTraits:
		d.Traits = r.Texts()
	case fieldPorts:
		d.Ports = readPorts(r)
	case fieldState:
		d.State = provision.State(r.Text())
	case fieldMaintenance:
		d.Maintenance = r.Bool()
	case fieldFault:
		d.Fault = r.Text()
	case fieldAutomatedClean:
		clean := r.Bool()
		d.AutomatedClean = &clean
	case fieldDisablePowerOff:
		d.DisablePowerOff = r.Bool()
	case fieldRetired:
		d.Retired = r.Bool()
	case fieldTargetRAID:
		d.TargetRAID = r.Object()
	case fieldKept:
		d.Kept = json.RawMessage(r.Text())
	case fieldMachine:
		texts := r.TextsByName()
		d.Machine = smbios.System{UUID: texts["uuid"], Serial: texts["serial"], SKU: texts["sku"]}
	case fieldDisks:
		d.Disks = json.RawMessage(r.Text())
	default: // of a newer version
		r.Skip()
	}
}

func readPorts(r *packed.Reader) (list []Port) {
	for range r.Count() {
		if more := r.Count() - 3; more >= 0 {
			list = append(list, Port{UUID: r.Text(), Address: r.Text(), PXEEnabled: r.Bool()})
			for range more {
				r.Skip()
			}
		}
		if r.Err() != nil {
			return nil
		}
	}
	return list
}

// Summary is by what a document is found; the rest of it is read when somebody asks for it.
type Summary struct {
	Driver, Group string
	Ports         []Port
}

// Summarize reads a document's summary and fails on what is no document.
func Summarize(uuid string, body []byte) (Summary, error) {
	if isJSON(body) {
		d, err := readJSON(uuid, body)
		if err != nil {
			return Summary{}, err
		}
		return Summary{d.Driver, d.Group, d.Ports}, nil
	}
	var d Document
	err := fields(body, func(field byte, r *packed.Reader) {
		switch field {
		case fieldDriver, fieldGroup, fieldPorts:
			d.field(field, r)
		default:
			r.Skip()
		}
	})
	return Summary{d.Driver, d.Group, d.Ports}, err
}

// FormOf returns the form of a document as it lies on the bus: 0 for JSON.
func FormOf(body []byte) int {
	if len(body) == 0 || isJSON(body) {
		return 0
	}
	return int(body[0])
}

// RevisionOf reads a document's revision and nothing else of it, where it can.
func RevisionOf(uuid string, body []byte) (revision int64, err error) {
	if isJSON(body) {
		d, err := readJSON(uuid, body)
		if err != nil {
			return 0, err
		}
		return d.Revision, nil
	}
	if len(body) > 1 && body[0] == Format && body[1] == fieldRevision {
		r := packed.Read(body[2:])
		return r.Int(), r.Err()
	}
	err = fields(body, func(field byte, r *packed.Reader) {
		if field == fieldRevision {
			revision = r.Int()
		} else {
			r.Skip()
		}
	})
	return revision, err
}
