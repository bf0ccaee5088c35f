package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/virtual/uefivars"
)

// staged is what management has set and the firmware has not been started with. A real
// board takes such settings while it is on, too, and acts on them at its next start.
type staged struct {
	Keys KeyReset `json:"keys,omitempty"`
	// Certificates are added after a reset of the keys, in DER by database.
	Certificates map[string][][]byte `json:"certificates,omitempty"`
	SecureBoot   *bool               `json:"secure_boot,omitempty"`
	ISCSI        *ISCSI              `json:"iscsi,omitempty"`
	// Order is the boot order, by names of variables.
	Order []string `json:"order,omitempty"`
	// Problems are why the last start could not write what is left.
	Problems map[string]string `json:"problems,omitempty"`
}

// Names of the staged settings, in the log and in staged.Problems.
const (
	keysSetting       = "keys of secure boot" // and certificates
	secureBootSetting = "secure boot"
	iscsiSetting      = "iSCSI attempts"
	orderSetting      = "boot order"
)

// KeyReset is a reset of the keys of secure boot.
type KeyReset string

// The resets. DefaultKeys brings those of Config.KeysFrom back; the switch of secure
// boot stays as it is. Without a platform key the firmware is in setup mode.
const (
	DefaultKeys   KeyReset = "default"
	NoKeys        KeyReset = "none"
	NoPlatformKey KeyReset = "no platform key"
)

// ISCSI is how the firmware logs in to iSCSI disks.
type ISCSI struct {
	// Initiator is the IQN of the machine.
	Initiator string             `json:"initiator"`
	Attempts  []uefivars.Attempt `json:"attempts"`
}

// SecureBoot is the state of secure boot.
type SecureBoot struct {
	// Next tells whether the firmware enforces it from its next start on; Now, whether
	// it did at its last start.
	Next, Now bool
	// PlatformKey tells whether there is one now.
	PlatformKey bool
	// Problem is why the last start could not write what is set; empty without one.
	Problem string
}

// maxURI is the longest text that a node of a device path has room for, and more than
// a BMC takes.
const maxURI = 2048

// HTTPBootURI is the URI of the boot device HTTP; empty is one that DHCP names.
func (m *Machine) HTTPBootURI() (uri string, err error) {
	err = m.do("reading the boot URI of", func() error {
		uri = m.state.HTTPBootURI
		return m.cfg.boots(HTTP)
	})
	return uri, err
}

// SetHTTPBootURI sets what HTTPBootURI returns. It acts at the next start that boots HTTP.
func (m *Machine) SetHTTPBootURI(uri string) error {
	return m.do("setting the boot URI of", func() error {
		if err := m.cfg.boots(HTTP); err != nil {
			return err
		}
		trusts := false
		if strings.HasPrefix(uri, "https:") {
			s, err := m.glance()
			if err != nil {
				return err
			}
			authorities, err := s.TLSAuthorities()
			if err != nil {
				return err
			}
			trusts = len(authorities) > 0
		}
		if err := checkURI(uri, trusts); err != nil {
			return refused{err}
		}
		m.state.HTTPBootURI = uri
		return m.saveState()
	})
}

// checkURI says why firmware that trusts an authority of TLS, or none, does not boot from a URI. Texts of URIs stay out of
// errors: they may name who is allowed to read.
func checkURI(uri string, trusts bool) error {
	if uri == "" {
		return nil
	}
	for _, r := range uri {
		if r <= ' ' || r > '~' {
			return errors.New("the boot URI has a character that is not printable ASCII")
		}
	}
	u, err := url.Parse(uri)
	switch {
	case len(uri) > maxURI:
		return fmt.Errorf("the boot URI has %d characters; the firmware takes %d", len(uri), maxURI)
	case err != nil || u.Host == "":
		return errors.New("the boot URI names no host")
	case u.Scheme == "https" && !trusts:
		return errors.New("the firmware trusts no certificates, so it boots from http URIs only")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the firmware boots from http and https URIs, not from %q", u.Scheme)
	}
	return nil
}

// SetISCSI sets the firmware's iSCSI initiator and its attempts, which are in place of
// all earlier ones. They act at the next start; a machine whose firmware never ran
// needs one start before that. An attempt without a MAC is by the machine's card.
func (m *Machine) SetISCSI(initiator string, attempts []uefivars.Attempt) error {
	return m.do("setting the iSCSI attempts of", func() error {
		if err := m.cfg.networkByVariables(); err != nil {
			return err
		}
		set := ISCSI{initiator, slices.Clone(attempts)}
		for i := range set.Attempts {
			if set.Attempts[i].MAC == nil {
				set.Attempts[i].MAC, _ = net.ParseMAC(m.cfg.MAC) // withDefaults has checked it
			}
		}
		if err := uefivars.CheckISCSI(set.Initiator, set.Attempts); err != nil {
			return refused{err}
		}
		now, err := m.glance()
		if err != nil {
			return err
		}
		if err := now.SetISCSI(set.Initiator, set.Attempts); err != nil && !waits(err) {
			return refused{err}
		}
		m.state.Staged.ISCSI = &set
		delete(m.state.Staged.Problems, iscsiSetting)
		return m.saveState()
	})
}

// ISCSI is what the firmware logs in with now, and what it will log in with from its next
// start on: nil for the same. Problem is why the last start could not write next.
func (m *Machine) ISCSI() (now ISCSI, next *ISCSI, problem string, err error) {
	err = m.do("reading the iSCSI attempts of", func() error {
		if err := m.cfg.networkByVariables(); err != nil {
			return err
		}
		s, err := m.glance()
		if err != nil {
			return err
		}
		if now.Initiator, now.Attempts, err = s.ISCSI(); err != nil {
			return err
		}
		next, problem = m.state.Staged.ISCSI, m.state.Staged.Problems[iscsiSetting]
		return nil
	})
	return now, next, problem, err
}

// BootOption is something that the firmware may boot, by management's or its own making.
type BootOption struct {
	// Name is that of its variable, such as Boot0001.
	Name, Description, Path string
	Active                  bool
}

// BootOptions are those that the firmware has now, in the boot order of its next start;
// options without a place in the order come last. Ordered is how many have one.
func (m *Machine) BootOptions() (options []BootOption, ordered int, err error) {
	err = m.do("reading the boot options of", func() error {
		if err := m.cfg.orderByVariables(); err != nil {
			return err
		}
		s, err := m.glance()
		if err != nil {
			return err
		}
		if staged := m.state.Staged.Order; staged != nil {
			if err := orderByName(s, staged); err != nil && !waits(err) && !errors.Is(err, errOrder) && !errors.Is(err, uefivars.ErrNoOption) {
				return err
			}
		}
		all, _ := s.BootOptions() // the firmware passes by those that cannot be read
		order, err := s.BootOrder()
		if err != nil {
			return err
		}
		add := func(number uint16) {
			o := all[number]
			options = append(options, BootOption{uefivars.OptionName(number), o.Description, o.Path.String(), o.Attributes&uefivars.Active != 0})
			delete(all, number)
		}
		for _, number := range order {
			if _, ok := all[number]; ok {
				add(number)
			}
		}
		ordered = len(options)
		for _, number := range slices.Sorted(maps.Keys(all)) {
			add(number)
		}
		return nil
	})
	return options, ordered, err
}

// OrderBoot sets the boot order from the next start on, by the names of the options. It
// has to name all that have a place in the order.
func (m *Machine) OrderBoot(names []string) error {
	return m.do("setting the boot order of", func() error {
		if err := m.cfg.orderByVariables(); err != nil {
			return err
		}
		s, err := m.glance()
		if err != nil {
			return err
		}
		if err := orderByName(s, names); err != nil && !waits(err) {
			return refused{err}
		}
		m.state.Staged.Order = slices.Clone(names)
		delete(m.state.Staged.Problems, orderSetting)
		return m.saveState()
	})
}

// errOrder is the error of a boot order that leaves an option out.
var errOrder = errors.New("a boot order names all options that have a place in it")

func orderByName(s *uefivars.Store, names []string) error {
	var numbers []uint16
	for _, name := range names {
		number, err := uefivars.OptionNumber(name)
		if err != nil {
			return err
		}
		numbers = append(numbers, number)
	}
	now, err := s.BootOrder()
	if err != nil {
		return err
	}
	all, _ := s.BootOptions()
	for _, number := range now {
		if _, is := all[number]; is && !slices.Contains(numbers, number) {
			return fmt.Errorf("%w: %s is missing", errOrder, uefivars.OptionName(number))
		}
	}
	return s.SetBootOrder(numbers)
}

// SetSecureBoot turns secure boot on or off from the next start on; the keys stay.
func (m *Machine) SetSecureBoot(on bool) error {
	return m.do("setting secure boot of", func() error {
		s, err := m.secured()
		if err != nil {
			return err
		}
		was := s.SecureBoot()
		if err := s.SetSecureBoot(on); err != nil && !waits(err) {
			return refused{err}
		}
		m.state.Staged.SecureBoot = &on
		if on == was {
			m.state.Staged.SecureBoot = nil
		}
		delete(m.state.Staged.Problems, secureBootSetting)
		return m.saveState()
	})
}

// ResetKeys resets the keys of secure boot at the next start.
func (m *Machine) ResetKeys(r KeyReset) error {
	return m.do("resetting the keys of", func() error {
		if !m.cfg.SecureBoot {
			return ErrNoSecureBoot
		}
		s, err := m.glance()
		if err != nil {
			return err
		}
		if err := m.cfg.resetKeys(s, r); err != nil && !waits(err) {
			return refused{err}
		}
		m.state.Staged.Keys, m.state.Staged.Certificates = r, nil
		if on := m.state.Staged.SecureBoot; on != nil && *on && s.SetSecureBoot(true) != nil {
			m.state.Staged.SecureBoot = nil // there is no key left to be on with
		}
		delete(m.state.Staged.Problems, keysSetting)
		return m.saveState()
	})
}

// SecureBoot tells the state of secure boot.
func (m *Machine) SecureBoot() (state SecureBoot, err error) {
	err = m.do("reading secure boot of", func() error {
		s, err := m.secured()
		if err != nil {
			return err
		}
		state = SecureBoot{Next: s.SecureBoot(), Now: m.state.SecureBootNow}
		if on := m.state.Staged.SecureBoot; on != nil {
			state.Next = *on
		}
		now, err := m.glance()
		if err != nil {
			return err
		}
		_, state.PlatformKey = now.Get(uefivars.GlobalVendor, "PK")
		var problems []string
		for _, setting := range []string{keysSetting, secureBootSetting} {
			if p := m.state.Staged.Problems[setting]; p != "" {
				problems = append(problems, p)
			}
		}
		state.Problem = strings.Join(problems, "; ")
		return nil
	})
	return state, err
}

// secured are the variables as they are, with the keys that the next start will have.
func (m *Machine) secured() (*uefivars.Store, error) {
	if !m.cfg.SecureBoot {
		return nil, ErrNoSecureBoot
	}
	s, err := m.glance()
	if err != nil {
		return nil, err
	}
	if err := m.cfg.writeKeys(s, m.state.Staged); err != nil && !waits(err) {
		return nil, err
	}
	return s, nil
}

// writeKeys brings what is staged for the keys into a store.
func (c Config) writeKeys(s *uefivars.Store, set staged) error {
	if set.Keys != "" {
		if err := c.resetKeys(s, set.Keys); err != nil {
			return err
		}
	}
	for _, database := range slices.Sorted(maps.Keys(set.Certificates)) {
		for _, der := range set.Certificates[database] {
			if err := s.AddCertificate(database, management, der, time.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

// management marks the certificates that management has added.
var management = uuid.MustParse("6f2a1c1e-5d0b-4a55-9a37-2f4d3f0f7a10")

// Certificates are those of a database of secure boot, PK, KEK, db or dbx, that the next
// start will have, in DER.
func (m *Machine) Certificates(database string) (certificates [][]byte, err error) {
	err = m.do("reading the certificates of", func() error {
		s, err := m.secured()
		if err != nil {
			return err
		}
		certificates, err = s.Certificates(database)
		return err
	})
	return certificates, err
}

// AddCertificate adds a certificate in DER to a database from the next start on. The one
// of PK is replaced.
func (m *Machine) AddCertificate(database string, der []byte) error {
	return m.do("adding a certificate to", func() error {
		s, err := m.secured()
		if err != nil {
			return err
		}
		if err := s.AddCertificate(database, management, der, time.Now()); err != nil && !waits(err) {
			return refused{err}
		}
		set := &m.state.Staged
		if set.Certificates == nil {
			set.Certificates = map[string][][]byte{}
		}
		if database == "PK" {
			set.Certificates[database] = nil
		}
		set.Certificates[database] = append(set.Certificates[database], der)
		delete(set.Problems, keysSetting)
		return m.saveState()
	})
}

func (c Config) resetKeys(s *uefivars.Store, r KeyReset) error {
	switch r {
	case NoKeys:
		return s.ClearKeys()
	case NoPlatformKey:
		return s.ClearPlatformKey()
	case DefaultKeys:
		factory, err := uefivars.ReadFile(c.KeysFrom)
		if err != nil {
			return fmt.Errorf("the factory's keys: %w", err)
		}
		on := s.SecureBoot()
		if err := s.CopyKeys(factory); err != nil {
			return err
		}
		return s.SetSecureBoot(on)
	}
	return fmt.Errorf("there is no reset of keys %q", r)
}

// waits tells whether a change is only for the firmware to run first.
func waits(err error) bool {
	return errors.Is(err, uefivars.ErrInterrupted) || errors.Is(err, uefivars.ErrNoAttempts)
}

// writeStaged brings what is staged into the variables, before a start. What cannot be
// written is told in the log and stays staged: the machine starts without it. The
// caller holds mu.
func (m *Machine) writeStaged(ctx context.Context) {
	s := &m.state.Staged
	problems := map[string]string{}
	write := func(setting string, change func(*uefivars.Store) error) (done bool) {
		err := m.edit(ctx, change)
		if err != nil {
			m.cfg.Log.Warn("a setting could not be written and waits for the next start", "setting", setting, "error", err)
			problems[setting] = err.Error()
		}
		return err == nil
	}
	if (s.Keys != "" || len(s.Certificates) > 0) && write(keysSetting, func(v *uefivars.Store) error { return m.cfg.writeKeys(v, *s) }) {
		s.Keys, s.Certificates = "", nil
	}
	if s.SecureBoot != nil && write(secureBootSetting, func(v *uefivars.Store) error { return v.SetSecureBoot(*s.SecureBoot) }) {
		s.SecureBoot = nil
	}
	if s.ISCSI != nil && write(iscsiSetting, func(v *uefivars.Store) error { return v.SetISCSI(s.ISCSI.Initiator, s.ISCSI.Attempts) }) {
		s.ISCSI = nil
	}
	if s.Order != nil && write(orderSetting, func(v *uefivars.Store) error { return orderByName(v, s.Order) }) {
		s.Order = nil
	}
	s.Problems = problems
	m.state.SecureBootNow = false
	if m.cfg.SecureBoot {
		if now, err := m.glance(); err == nil {
			m.state.SecureBootNow = now.SecureBoot()
		}
	}
}
