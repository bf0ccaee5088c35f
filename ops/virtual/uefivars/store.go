package uefivars

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"
)

// ErrFull means that the store has no room, not even without what is deleted.
var ErrFull = errors.New("the UEFI variable store is full")

// Attributes of variables (UEFI 2.10, section 8.2.1).
const (
	NonVolatile           uint32 = 0x01
	BootService           uint32 = 0x02
	Runtime               uint32 = 0x04
	TimeBasedAuthenticate uint32 = 0x20
)

// Variable is a UEFI variable (UEFI 2.10, section 8.2).
type Variable struct {
	Vendor     uuid.UUID
	Name       string
	Attributes uint32
	// Time is when an authenticated variable was signed; others have none.
	Time time.Time
	Data []byte
}

// Store is a variable store in memory. Not safe for concurrent use.
type Store struct {
	image []byte // of the firmware volume
	end   int
	// behind is how many zeros follow the volume.
	behind int
}

// Parse reads the image of a variable store. Its error is ErrLayout for one that
// this package does not know. The store has a copy of the image.
func Parse(image []byte) (*Store, error) {
	volume, behind := split(image)
	end, err := checkLayout(volume)
	if err != nil {
		return nil, err
	}
	if _, _, err := records(volume, end); err != nil {
		return nil, err
	}
	return &Store{bytes.Clone(volume), end, behind}, nil
}

// Bytes returns a copy of the image.
func (s *Store) Bytes() []byte { return append(bytes.Clone(s.image), make([]byte, s.behind)...) }

// List returns all variables, in the order in which they were written.
func (s *Store) List() []Variable {
	var list []Variable
	for _, r := range s.valid() {
		list = append(list, s.variable(r))
	}
	return list
}

// Get returns a variable and whether there is one.
func (s *Store) Get(vendor uuid.UUID, name string) (Variable, bool) {
	r, ok := s.find(vendor, name)
	if !ok {
		return Variable{}, false
	}
	return s.variable(r), true
}

// Set writes a variable. As in the firmware, one that exists keeps its attributes:
// others are an error. A variable without data is one to delete: Delete does that.
func (s *Store) Set(v Variable) error {
	if err := s.check(v); err != nil {
		return fmt.Errorf("setting UEFI variable %s: %w", v.Name, err)
	}
	if old, ok := s.Get(v.Vendor, v.Name); ok {
		if old.Attributes != v.Attributes {
			return fmt.Errorf("setting UEFI variable %s: it has attributes %#x, not %#x", v.Name, old.Attributes, v.Attributes)
		}
		if bytes.Equal(old.Data, v.Data) && old.Time.Equal(v.Time) {
			return nil
		}
	}
	raw := encode(v)
	_, free, err := records(s.image, s.end)
	if err != nil {
		return err
	}
	if free+len(raw) > s.end {
		// What replaces a variable needs its room: compact without the old one.
		compact := s.compacted(v.Vendor, v.Name)
		if _, free, err = records(compact, s.end); err != nil {
			return err
		}
		if free+len(raw) > s.end {
			return fmt.Errorf("setting UEFI variable %s, %d bytes: %w", v.Name, len(v.Data), ErrFull)
		}
		s.image = compact
	}
	if old, ok := s.find(v.Vendor, v.Name); ok {
		s.image[old.at+2] &= stateDeletedTransition & stateDeleted
	}
	copy(s.image[free:], raw)
	return nil
}

// Delete deletes a variable; one that does not exist is no error.
func (s *Store) Delete(vendor uuid.UUID, name string) error {
	if interrupted(s.image, s.end) {
		return fmt.Errorf("deleting UEFI variable %s: %w", name, ErrInterrupted)
	}
	for r, ok := s.find(vendor, name); ok; r, ok = s.find(vendor, name) {
		s.image[r.at+2] &= stateDeleted
	}
	return nil
}

// check refuses what the firmware would refuse, or not find again.
func (s *Store) check(v Variable) error {
	// PcdMaxVariableSize of OvmfPkgX64.dsc, by the size of the flash, and of ArmVirtQemu.dsc.
	largest := 0x8400
	if s.end < 0x40000 || le.Uint32(s.image[60:]) == flashBlock {
		largest = 0x2000
	}
	switch {
	case interrupted(s.image, s.end):
		return ErrInterrupted
	case v.Name == "" || slices.Contains([]rune(v.Name), 0):
		return errors.New("its name is empty or has a NUL")
	case len(v.Data) == 0:
		return errors.New("it has no data")
	case v.Attributes&NonVolatile == 0:
		return errors.New("it is volatile, and such a variable is not in the store")
	case variableHeader+len(utf16z(v.Name))+len(v.Data) > largest:
		return fmt.Errorf("%d bytes are more than the firmware reads", len(v.Data))
	case v.Attributes&TimeBasedAuthenticate == 0 && !v.Time.IsZero():
		return errors.New("it has a time and is not authenticated")
	}
	return nil
}

// valid lists the variables that are not deleted. One that the firmware was
// replacing when it was stopped counts if its successor is not complete.
func (s *Store) valid() (list []record) {
	all, _, _ := records(s.image, s.end) // Parse has had its error
	added := map[string]bool{}
	key := func(r record) string { return string(s.image[r.at+44 : r.dataAt()]) }
	for _, r := range all {
		if s.image[r.at+2] == stateAdded {
			added[key(r)] = true
		}
	}
	seen := map[string]bool{}
	for _, r := range all {
		state, k := s.image[r.at+2], key(r)
		if (state == stateAdded || state == stateAdded&stateDeletedTransition && !added[k]) && !seen[k] {
			seen[k] = true
			list = append(list, r)
		}
	}
	return list
}

func (s *Store) find(vendor uuid.UUID, name string) (record, bool) {
	want := append(appendGUID(nil, vendor), utf16z(name)...)
	for _, r := range s.valid() {
		if bytes.Equal(s.image[r.at+44:r.dataAt()], want) {
			return r, true
		}
	}
	return record{}, false
}

// compacted is the image with the valid variables only, and without one of them.
func (s *Store) compacted(vendor uuid.UUID, name string) []byte {
	image := bytes.Clone(s.image)
	at := volumeHeader + storeHeader
	without, ok := s.find(vendor, name)
	for _, r := range s.valid() {
		if ok && r == without {
			continue
		}
		n := copy(image[at:], s.image[r.at:r.end()])
		image[at+2] = stateAdded
		moved := record{at, r.name, r.data}
		fill(image[at+n : min(moved.next(), s.end)])
		at = moved.next()
	}
	fill(image[min(at, s.end):s.end])
	return image
}

func fill(b []byte) {
	for i := range b {
		b[i] = erased
	}
}

func (s *Store) variable(r record) Variable {
	h := s.image[r.at:]
	return Variable{
		Vendor: guidAt(h[44:]), Name: textZ(s.image[r.nameAt():r.dataAt()]), Attributes: le.Uint32(h[4:]),
		Time: timeAt(h[16:]), Data: bytes.Clone(s.image[r.dataAt():r.end()]),
	}
}

// encode is AUTHENTICATED_VARIABLE_HEADER with name and data. The monotonic count
// and the index of a public key are those of a form of signature that UEFI has given up.
func encode(v Variable) []byte {
	name := utf16z(v.Name)
	raw := le.AppendUint16(nil, startID)
	raw = append(raw, stateAdded, 0)
	raw = le.AppendUint32(raw, v.Attributes)
	raw = le.AppendUint64(raw, 0)
	raw = appendTime(raw, v.Time)
	raw = le.AppendUint32(raw, 0)
	raw = le.AppendUint32(raw, uint32(len(name)))
	raw = le.AppendUint32(raw, uint32(len(v.Data)))
	raw = appendGUID(raw, v.Vendor)
	return append(append(raw, name...), v.Data...)
}

// appendTime appends an EFI_TIME (UEFI 2.10, section 8.3) of UTC.
func appendTime(raw []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(raw, make([]byte, 16)...)
	}
	t = t.UTC()
	raw = le.AppendUint16(raw, uint16(t.Year()))
	raw = append(raw, byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second()), 0)
	return append(raw, make([]byte, 8)...)
}

func timeAt(raw []byte) time.Time {
	if bytes.Equal(raw[:16], make([]byte, 16)) {
		return time.Time{}
	}
	return time.Date(int(le.Uint16(raw)), time.Month(raw[2]), int(raw[3]), int(raw[4]), int(raw[5]), int(raw[6]), 0, time.UTC)
}

// utf16z is a CHAR16 string with its NUL.
func utf16z(text string) []byte {
	var raw []byte
	for _, u := range append(utf16.Encode([]rune(text)), 0) {
		raw = le.AppendUint16(raw, u)
	}
	return raw
}

// textZ reads a CHAR16 string up to its NUL or its end.
func textZ(raw []byte) string {
	var units []uint16
	for ; len(raw) >= 2 && le.Uint16(raw) != 0; raw = raw[2:] {
		units = append(units, le.Uint16(raw))
	}
	return string(utf16.Decode(units))
}
