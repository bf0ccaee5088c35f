package node

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

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

// envelope is a document as it lies on the bus. Readers skip fields that they do not know, here and in Document: these are of another
// version.
type envelope struct {
	Form int `json:"form"`
	// Key is the id of the key that made the code.
	Key string `json:"key,omitempty"`
	// Code shows a rack that central made the node's document, byte for byte.
	Code string          `json:"code,omitempty"`
	Node json.RawMessage `json:"node"`
}

func open(body []byte) (e envelope, err error) {
	err = json.Unmarshal(body, &e)
	switch {
	case err != nil:
	case e.Form > Format:
		err = fmt.Errorf("%w: it is of form %d, and this program reads up to %d", ErrFormat, e.Form, Format)
	case e.Form < 1 || len(e.Node) == 0:
		err = errors.New("it is no node document")
	}
	return e, err
}

// Append appends the document as it lies on the bus, under a key that names its node. It fails on a value that JSON cannot hold.
func (d *Document) Append(b []byte) ([]byte, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return b, err
	}
	return envelope{Form: Format, Node: raw}.append(b)
}

func (e envelope) append(b []byte) ([]byte, error) {
	body, err := json.Marshal(e)
	return append(b, body...), err
}

// codeOfNode is the purpose of the codes of node documents.
const codeOfNode = "node"

// AppendSigned appends the document as Append does, with a code that shows a rack that central made it for this node. The
// code covers all of it, since where secrets are sent stands beside them in clear. key is that of the node's group; the
// document names its generation.
func (d *Document) AppendSigned(b []byte, key *seal.Key) ([]byte, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return b, err
	}
	e := envelope{Form: Format, Key: key.ID(), Node: raw}
	e.Code = hex.EncodeToString(key.Code(codeOfNode, e.signed(d.UUID)...))
	return e.append(b)
}

// signed is what the code covers.
func (e envelope) signed(uuid string) [][]byte {
	return [][]byte{[]byte(uuid), []byte(strconv.Itoa(e.Form)), []byte(e.Key), e.Node}
}

// Verify reports whether the holder of the group's key made the document that body is, as it lies on
// the bus, for the node uuid. It returns what the code covers, as Append writes it.
func Verify(uuid string, body []byte, key *seal.Key) (document []byte, made bool) {
	e, err := open(body)
	if err != nil {
		return nil, false
	}
	code, err := hex.DecodeString(e.Code)
	if err != nil || !key.CodeFits(code, codeOfNode, e.signed(uuid)...) {
		return nil, false
	}
	document, err = envelope{Form: e.Form, Node: e.Node}.append(nil)
	return document, err == nil
}

// KeyOf is the id of the key with which a document as it lies on the bus says that its code was made; empty if it does
// not say. Only Verify proves it.
func KeyOf(body []byte) string {
	e, err := open(body)
	if err != nil || e.Code == "" {
		return ""
	}
	return e.Key
}

// FormOf returns the form of a document as it lies on the bus, also of one that this program does not read; 0: it is none.
func FormOf(body []byte) int {
	e, err := open(body)
	if err != nil && !errors.Is(err, ErrFormat) {
		return 0
	}
	return e.Form
}

// Read reads a document of the bus; uuid is the node's, from its key. The document refers to nothing of body. Numbers are
// float64, but for those beyond it: these are json.Number.
func Read(uuid string, body []byte) (*Document, error) {
	var d Document
	if err := read(uuid, body, &d, func() string { return d.UUID }); err != nil {
		return nil, err
	}
	return &d, nil
}

// read reads a document into a struct that has some of its fields.
func read(uuid string, body []byte, into any, named func() string) error {
	e, err := open(body)
	if err != nil {
		return fmt.Errorf("read the document of node %s: %w", uuid, err)
	}
	if err := decode(e.Node, into); err != nil {
		return fmt.Errorf("read the document of node %s: %w", uuid, err)
	}
	if named() != uuid {
		return fmt.Errorf("%w: %q, its key that of %q", ErrOther, named(), uuid)
	}
	return nil
}

// decode is json.Unmarshal, which refuses numbers beyond float64 where this keeps them.
func decode(raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	if d, is := into.(*Document); is && errors.As(err, new(*json.UnmarshalTypeError)) {
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
	return err
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
}

// Summarize reads a document's summary and fails on what is no document.
func Summarize(uuid string, body []byte) (s Summary, err error) {
	err = read(uuid, body, &s, func() string { return s.UUID })
	return s, err
}

// RevisionOf reads a document's revision and nothing else of it.
func RevisionOf(uuid string, body []byte) (revision int64, err error) {
	var d struct {
		UUID     string `json:"uuid"`
		Revision int64  `json:"revision"`
	}
	err = read(uuid, body, &d, func() string { return d.UUID })
	return d.Revision, err
}
