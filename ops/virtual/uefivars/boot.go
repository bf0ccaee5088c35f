package uefivars

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// ErrNoOption is the error for the number of a boot option that does not exist.
var ErrNoOption = errors.New("there is no such boot option")

// bootAttributes are those of all boot variables (UEFI 2.10, section 3.3).
const bootAttributes = NonVolatile | BootService | Runtime

var bootOption = regexp.MustCompile(`^Boot([0-9A-F]{4})$`)

// OptionName is the name of the variable of an option, and its name in Redfish.
func OptionName(number uint16) string { return optionName(number) }

// OptionNumber is the number of the option whose variable has that name.
func OptionNumber(name string) (uint16, error) {
	m := bootOption.FindStringSubmatch(name)
	if m == nil {
		return 0, fmt.Errorf("boot option %q: %w", name, ErrNoOption)
	}
	number, err := strconv.ParseUint(m[1], 16, 16)
	return uint16(number), err
}

func optionName(number uint16) string { return fmt.Sprintf("Boot%04X", number) }

// BootOptions returns the options by number. Its error is that of the first option
// that cannot be read; the others are there all the same.
func (s *Store) BootOptions() (map[uint16]LoadOption, error) {
	options := map[uint16]LoadOption{}
	var first error
	for _, v := range s.List() {
		m := bootOption.FindStringSubmatch(v.Name)
		if m == nil || v.Vendor != GlobalVendor {
			continue
		}
		number, err := strconv.ParseUint(m[1], 16, 16)
		if err != nil {
			return nil, err
		}
		o, err := ParseLoadOption(v.Data)
		if err != nil {
			if first == nil {
				first = fmt.Errorf("%s: %w", v.Name, err)
			}
			continue
		}
		options[uint16(number)] = o
	}
	return options, first
}

// SetBootOption writes the option with a number.
func (s *Store) SetBootOption(number uint16, o LoadOption) error {
	raw, err := o.Encode()
	if err != nil {
		return err
	}
	return s.Set(Variable{Vendor: GlobalVendor, Name: optionName(number), Attributes: bootAttributes, Data: raw})
}

// AddBootOption returns the number of an option that boots from the path of o. It
// writes o under the first free number if there is none. The boot order stays.
func (s *Store) AddBootOption(o LoadOption) (uint16, error) {
	options, _ := s.BootOptions() // one that cannot be read is not the one looked for
	for _, number := range slices.Sorted(maps.Keys(options)) {
		if options[number].Boots() && options[number].Path.Equal(o.Path) {
			return number, nil
		}
	}
	for number := 0; number <= 0xffff; number++ {
		if _, taken := s.Get(GlobalVendor, optionName(uint16(number))); !taken {
			return uint16(number), s.SetBootOption(uint16(number), o)
		}
	}
	return 0, fmt.Errorf("adding boot option %q: %w", o.Description, ErrFull)
}

// RemoveBootOption deletes an option, and takes it out of BootOrder and BootNext.
func (s *Store) RemoveBootOption(number uint16) error {
	order, err := s.BootOrder()
	if err != nil {
		return err
	}
	if slices.Contains(order, number) {
		order = slices.DeleteFunc(order, func(n uint16) bool { return n == number })
		if err := s.writeOrder(order); err != nil {
			return err
		}
	}
	if next, ok, err := s.BootNext(); err != nil {
		return err
	} else if ok && next == number {
		if err := s.ClearBootNext(); err != nil {
			return err
		}
	}
	return s.Delete(GlobalVendor, optionName(number))
}

// BootOrder returns the numbers of the options in the order in which the firmware
// tries them. Numbers without an option are possible: the firmware passes them by.
func (s *Store) BootOrder() ([]uint16, error) {
	v, ok := s.Get(GlobalVendor, "BootOrder")
	if !ok {
		return nil, nil
	}
	if len(v.Data)%2 != 0 {
		return nil, fmt.Errorf("BootOrder has %d bytes", len(v.Data))
	}
	var order []uint16
	for raw := v.Data; len(raw) > 0; raw = raw[2:] {
		order = append(order, le.Uint16(raw))
	}
	return order, nil
}

// SetBootOrder sets the order. The error is ErrNoOption for a number without an option.
func (s *Store) SetBootOrder(order []uint16) error {
	for i, number := range order {
		if _, ok := s.Get(GlobalVendor, optionName(number)); !ok {
			return fmt.Errorf("boot order with %s: %w", optionName(number), ErrNoOption)
		}
		if slices.Contains(order[:i], number) {
			return fmt.Errorf("boot order with %s twice", optionName(number))
		}
	}
	return s.writeOrder(order)
}

// BootFirst moves an option to the front of the boot order; the others keep theirs.
func (s *Store) BootFirst(number uint16) error {
	if _, ok := s.Get(GlobalVendor, optionName(number)); !ok {
		return fmt.Errorf("booting %s first: %w", optionName(number), ErrNoOption)
	}
	order, err := s.BootOrder()
	if err != nil {
		return err
	}
	order = slices.DeleteFunc(order, func(n uint16) bool { return n == number })
	return s.writeOrder(slices.Insert(order, 0, number))
}

func (s *Store) writeOrder(order []uint16) error {
	if len(order) == 0 {
		return s.Delete(GlobalVendor, "BootOrder")
	}
	var raw []byte
	for _, number := range order {
		raw = le.AppendUint16(raw, number)
	}
	return s.Set(Variable{Vendor: GlobalVendor, Name: "BootOrder", Attributes: bootAttributes, Data: raw})
}

// BootNext returns the option that the next start of the firmware tries first, and
// whether there is one. The firmware deletes it before it tries the option.
func (s *Store) BootNext() (number uint16, ok bool, err error) {
	v, ok := s.Get(GlobalVendor, "BootNext")
	if !ok {
		return 0, false, nil
	}
	if len(v.Data) != 2 {
		return 0, false, fmt.Errorf("BootNext has %d bytes", len(v.Data))
	}
	return le.Uint16(v.Data), true, nil
}

// SetBootNext sets what BootNext returns. The error is ErrNoOption for a number
// without an option.
func (s *Store) SetBootNext(number uint16) error {
	if _, ok := s.Get(GlobalVendor, optionName(number)); !ok {
		return fmt.Errorf("booting %s next: %w", optionName(number), ErrNoOption)
	}
	return s.Set(Variable{Vendor: GlobalVendor, Name: "BootNext", Attributes: bootAttributes, Data: le.AppendUint16(nil, number)})
}

// ClearBootNext leaves the next start to the boot order.
func (s *Store) ClearBootNext() error { return s.Delete(GlobalVendor, "BootNext") }
