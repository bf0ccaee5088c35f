package node

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/ironyard/ironyard/protocol/jsontext"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Format is the form of the documents that Append writes. Fields are added without a new one, since readers skip those that
// they do not know. What a reader must not skip, such as where an instance lies, takes a new one.
const Format = 1

// ErrFormat means that a document is of a form that this program does not read: central is newer than the rackd that it
// writes to.
var ErrFormat = errors.New("unknown form of a node document: upgrade this program to central's version")

// ErrOther means that a document names another node than its key.
var ErrOther = errors.New("the document is that of another node")

// Posted is a document as it lies on the bus. Readers skip fields that they do not know, here and in Document: these are of another
// version.
type Posted struct {
	form int
	key  string
	code string
	node json.RawMessage
}

// Open opens a document of the bus and reads nothing of the node. What it returns refers to nothing of body. With ErrFormat the form
// is told nevertheless.
func Open(body []byte) (Posted, error) {
	e, err := usually[opened](string(body))
	p := Posted{form: e.Form, key: e.Key, code: e.Code, node: e.Node}
	switch {
	case err != nil:
		p.form = 0
	case p.form > Format:
		err = fmt.Errorf("%w: it is of form %d, and this program reads up to %d", ErrFormat, p.form, Format)
	case p.form < 1 || len(p.node) == 0:
		err = errors.New("it is no node document")
	}
	return p, err
}

// Form is that of the document, also of one that this program does not read; 0: it is none.
func (p Posted) Form() int { return p.form }

// Key is the id of the key with which the document says that its code was made; empty if it does not say. Only Verify proves it.
func (p Posted) Key() string {
	if p.code == "" {
		return ""
	}
	return p.key
}

// Append appends the document as it lies on the bus, under a key that names its node. It fails on a value that JSON cannot hold.
func (d *Document) Append(b []byte) ([]byte, error) {
	raw, err := d.marshal()
	if err != nil {
		return b, err
	}
	return Posted{form: Format, node: raw}.append(b)
}

// marshal is json.Marshal, which takes most of its time for the objects: these are appended without reflection.
func (d *Document) marshal() ([]byte, error) {
	rest := *d
	rest.Interfaces, rest.DriverInfo, rest.Properties, rest.InstanceInfo = nil, nil, nil, nil
	b, err := json.Marshal(&rest)
	if err != nil {
		return nil, err
	}
	b = append(make([]byte, 0, 2*len(b)), b[:len(b)-1]...)
	if len(d.Interfaces) > 0 {
		b, err = jsontext.Append(append(b, `,"interfaces":`...), d.Interfaces, appendOther)
	}
	for _, o := range []struct {
		name   string
		object map[string]any
	}{{"driver_info", d.DriverInfo}, {"properties", d.Properties}, {"instance_info", d.InstanceInfo}} {
		if len(o.object) > 0 && err == nil {
			b, err = jsontext.Append(append(append(append(b, `,"`...), o.name...), `":`...), o.object, appendOther)
		}
	}
	return append(b, '}'), err
}

func appendOther(b []byte, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	return append(b, raw...), err
}

// append writes what Open reads. The node's part is JSON already and goes in as it is.
func (p Posted) append(b []byte) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"form":`...), int64(p.form), 10)
	for _, f := range []struct{ name, value string }{{"key", p.key}, {"code", p.code}} {
		if f.value == "" {
			continue
		}
		text, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(append(b, `,"`...), f.name...), `":`...), text...)
	}
	return append(append(append(b, `,"node":`...), p.node...), '}'), nil
}

// codeOfNode is the purpose of the codes of node documents.
const codeOfNode = "node"

// AppendSigned appends the document as Append does, with a code that shows a rack that central made it for this node. The
// code covers all of it, since where secrets are sent stands beside them in clear. key is that of the node's group; the
// document names its generation.
func (d *Document) AppendSigned(b []byte, key *seal.Key) ([]byte, error) {
	raw, err := d.marshal()
	if err != nil {
		return b, err
	}
	p := Posted{form: Format, key: key.ID(), node: raw}
	p.code = hex.EncodeToString(key.Code(codeOfNode, p.signed(d.UUID)...))
	return p.append(b)
}

// signed is what the code covers.
func (p Posted) signed(uuid string) [][]byte {
	return [][]byte{[]byte(uuid), []byte(strconv.Itoa(p.form)), []byte(p.key), p.node}
}

// Verify reports whether the holder of the group's key made the document for the node uuid. It returns what
// the code covers, as Append writes it.
func (p Posted) Verify(uuid string, key *seal.Key) (document []byte, made bool) {
	code, err := hex.DecodeString(p.code)
	if err != nil || !key.CodeFits(code, codeOfNode, p.signed(uuid)...) {
		return nil, false
	}
	document, err = Posted{form: p.form, node: p.node}.append(nil)
	return document, err == nil
}

// Read reads a document of the bus; uuid is the node's, from its key. The document refers to nothing of body. Numbers are
// float64, but for those beyond it: these are json.Number.
func Read(uuid string, body []byte) (*Document, error) {
	var d Document
	p, err := Open(body)
	if err == nil {
		err = decode(p.node, &d)
	}
	if err != nil {
		return nil, unread(uuid, err)
	}
	return &d, names(d.UUID, uuid)
}

func unread(uuid string, err error) error {
	return fmt.Errorf("read the document of node %s: %w", uuid, err)
}

// names returns an error if a document of node named lies under the key of node uuid.
func names(named, uuid string) error {
	if named != uuid {
		return fmt.Errorf("%w: %q, its key that of %q", ErrOther, named, uuid)
	}
	return nil
}

// decode is json.Unmarshal, which refuses numbers beyond float64 where this keeps them.
func decode(raw []byte, d *Document) error {
	err := json.Unmarshal(raw, d)
	if !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err
	}
	exact := json.NewDecoder(bytes.NewReader(raw))
	exact.UseNumber()
	*d = Document{}
	if err := exact.Decode(d); err != nil {
		return err
	}
	objects := []map[string]any{d.DriverInfo, d.Properties, d.InstanceInfo, d.TargetRAID}
	for _, t := range d.Targets {
		objects = append(objects, t.Properties)
	}
	for _, m := range objects {
		for name, v := range m {
			m[name] = floats(v)
		}
	}
	return nil
}

// floats is v with each number that float64 has as one.
func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && !math.IsInf(f, 0) {
			return f
		}
	case map[string]any:
		for name, inner := range v {
			v[name] = floats(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = floats(inner)
		}
	}
	return v
}

// Summary is by what a document is found; the rest of it is read when it is needed.
type Summary struct {
	UUID   string `json:"uuid"`
	Driver string `json:"driver"`
	Group  string `json:"group"`
	Ports  []Port `json:"ports"`
	// ConsoleEnabled is the document's.
	ConsoleEnabled bool `json:"console_enabled"`
	// InstanceFiles is the document's.
	InstanceFiles map[string]string `json:"instance_files"`
}

// Summary reads the document's summary and fails on what is no document of the node.
func (p Posted) Summary(uuid string) (Summary, error) {
	s, err := usually[Summary](string(p.node))
	if err != nil {
		return s, unread(uuid, err)
	}
	return s, names(s.UUID, uuid)
}

// RevisionOf reads a document's revision and nothing else of it, in one pass: central asks for it before each document that it writes.
func RevisionOf(uuid string, body []byte) (int64, error) {
	e, err := usually[revised](string(body))
	if err == nil && (e.Form < 1 || e.Form > Format || e.Node == nil) {
		_, err = Open(body) // says what is wrong with it
		if err == nil {
			err = errors.New("it says nothing of its node")
		}
	}
	if err != nil {
		return 0, unread(uuid, err)
	}
	return e.Node.Revision, names(e.Node.UUID, uuid)
}
