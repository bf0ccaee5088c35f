package uefivars

import (
	"errors"
	"fmt"
	"strings"
)

// Attributes of load options (UEFI 2.10, section 3.1.3).
const (
	Active        uint32 = 0x01
	Hidden        uint32 = 0x08
	CategoryApp   uint32 = 0x100
	categoryField uint32 = 0x1f00
)

// LoadOption is something to boot, as in a variable Boot#### (UEFI 2.10, section 3.1.3).
type LoadOption struct {
	Attributes  uint32
	Description string
	Path        DevicePath
	// Further are more device paths, in their binary form; the firmware uses the first alone.
	Further []byte
	// OptionalData is handed to what is booted. Options that the firmware made for
	// itself have its mark in it.
	OptionalData []byte
}

// Boots tells whether the boot manager tries the option when its turn in the boot
// order comes. It passes by inactive options and applications, such as its own menu.
func (o LoadOption) Boots() bool {
	return o.Attributes&Active != 0 && o.Attributes&categoryField == 0
}

// ParseLoadOption reads an EFI_LOAD_OPTION.
func ParseLoadOption(raw []byte) (LoadOption, error) {
	if len(raw) < 6 {
		return LoadOption{}, fmt.Errorf("a load option of %d bytes", len(raw))
	}
	o := LoadOption{Attributes: le.Uint32(raw)}
	paths := int(le.Uint16(raw[4:]))
	raw = raw[6:]
	o.Description = textZ(raw)
	after := len(utf16z(o.Description))
	if after > len(raw) || le.Uint16(raw[after-2:]) != 0 || after+paths > len(raw) {
		return LoadOption{}, errors.New("a load option is cut off")
	}
	raw = raw[after:]
	var err error
	if o.Path, o.Further, err = parsePath(raw[:paths]); err != nil {
		return LoadOption{}, fmt.Errorf("load option %q: %w", o.Description, err)
	}
	o.Further = append([]byte(nil), o.Further...)
	o.OptionalData = append([]byte(nil), raw[paths:]...)
	return o, nil
}

// Encode is the option as EFI_LOAD_OPTION.
func (o LoadOption) Encode() ([]byte, error) {
	if strings.ContainsRune(o.Description, 0) {
		return nil, fmt.Errorf("load option %q: a NUL in the description", o.Description)
	}
	for _, n := range o.Path {
		if len(n.Data) > 1<<16-1-4 {
			return nil, fmt.Errorf("load option %q: a node of %d bytes", o.Description, len(n.Data))
		}
	}
	paths := append(o.Path.encode(), o.Further...)
	if len(paths) > 1<<16-1 {
		return nil, fmt.Errorf("load option %q: device paths of %d bytes", o.Description, len(paths))
	}
	raw := le.AppendUint32(nil, o.Attributes)
	raw = le.AppendUint16(raw, uint16(len(paths)))
	raw = append(raw, utf16z(o.Description)...)
	return append(append(raw, paths...), o.OptionalData...), nil
}
