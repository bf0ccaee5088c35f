package uefivars

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// ErrNoPlatformKey means that the store has no PK: the firmware is in setup mode,
// and secure boot cannot be on.
var ErrNoPlatformKey = errors.New("the UEFI variables have no platform key")

// keyAttributes are those of PK, KEK and db (UEFI 2.10, section 3.3).
const keyAttributes = NonVolatile | BootService | Runtime | TimeBasedAuthenticate

// Sizes of EFI_SIGNATURE_LIST's header and of the owner (UEFI 2.10, section 32.4.1).
const (
	listHeader  = 28
	signerOwner = 16
)

// Keys are the certificates of secure boot, each in DER.
type Keys struct {
	// Owner is the GUID that marks them as one party's.
	Owner uuid.UUID
	// PK is the platform key. KEK may change DB, and DB is what boots.
	PK      []byte
	KEK, DB [][]byte
}

// Keys returns the certificates. Hashes, and lists of other kinds, are left out.
func (s *Store) Keys() (Keys, error) {
	var k Keys
	pk, owner, err := s.certificates(GlobalVendor, "PK")
	if err != nil {
		return Keys{}, err
	}
	if len(pk) > 0 {
		k.PK, k.Owner = pk[0], owner
	}
	if k.KEK, _, err = s.certificates(GlobalVendor, "KEK"); err != nil {
		return Keys{}, err
	}
	k.DB, _, err = s.certificates(ImageSecurityVendor, "db")
	return k, err
}

// SetKeys replaces PK, KEK and db, as management does out of band: no signature is
// asked for. The firmware takes later changes only from those who have a newer time.
// Secure boot is on at the next start, unless SetSecureBoot turns it off.
func (s *Store) SetKeys(k Keys, at time.Time) error {
	if len(k.PK) == 0 {
		return errors.New("setting the keys of secure boot: no platform key")
	}
	if at.IsZero() {
		return errors.New("setting the keys of secure boot: no time")
	}
	sets := []struct {
		vendor       uuid.UUID
		name         string
		certificates [][]byte
	}{{ImageSecurityVendor, "db", k.DB}, {GlobalVendor, "KEK", k.KEK}, {GlobalVendor, "PK", [][]byte{k.PK}}}
	for _, set := range sets {
		for _, der := range set.certificates {
			if _, err := x509.ParseCertificate(der); err != nil {
				return fmt.Errorf("setting the keys of secure boot: %s: %w", set.name, err)
			}
		}
	}
	for _, set := range sets {
		if len(set.certificates) == 0 {
			if err := s.Delete(set.vendor, set.name); err != nil {
				return err
			}
			continue
		}
		v := Variable{Vendor: set.vendor, Name: set.name, Attributes: keyAttributes, Time: at.Truncate(time.Second), Data: signatureLists(k.Owner, set.certificates)}
		if err := s.Set(v); err != nil {
			return err
		}
	}
	return nil
}

// ClearKeys deletes PK, KEK, db and dbx: the firmware is in setup mode then.
func (s *Store) ClearKeys() error {
	return errors.Join(s.Delete(GlobalVendor, "PK"), s.Delete(GlobalVendor, "KEK"), s.Delete(ImageSecurityVendor, "db"), s.Delete(ImageSecurityVendor, "dbx"))
}

// databases are the variables that hold keys, in the order in which they are written.
var databases = []struct {
	name   string
	vendor uuid.UUID
}{{"dbx", ImageSecurityVendor}, {"db", ImageSecurityVendor}, {"KEK", GlobalVendor}, {"PK", GlobalVendor}}

func vendorOf(database string) (uuid.UUID, error) {
	for _, d := range databases {
		if d.name == database {
			return d.vendor, nil
		}
	}
	return uuid.Nil, fmt.Errorf("there is no database of keys %q", database)
}

// Certificates returns those of a database, PK, KEK, db or dbx, in DER. Hashes, and lists
// of other kinds, are left out.
func (s *Store) Certificates(database string) ([][]byte, error) {
	vendor, err := vendorOf(database)
	if err != nil {
		return nil, err
	}
	certificates, _, err := s.certificates(vendor, database)
	return certificates, err
}

// AddCertificate adds a certificate in DER to a database, as one of the owner's. PK holds
// one: it takes the place of the one before. The switch of secure boot stays.
func (s *Store) AddCertificate(database string, owner uuid.UUID, der []byte, at time.Time) error {
	vendor, err := vendorOf(database)
	if err != nil {
		return err
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("adding a certificate to %s: %w", database, err)
	}
	have, _, err := s.certificates(vendor, database)
	if err != nil {
		return err
	}
	for _, c := range have {
		if bytes.Equal(c, der) {
			return nil
		}
	}
	on := s.SecureBoot()
	data := signatureLists(owner, [][]byte{der})
	if old, ok := s.Get(vendor, database); ok && database != "PK" {
		data = append(old.Data, data...)
	}
	if err := s.Set(Variable{Vendor: vendor, Name: database, Attributes: keyAttributes, Time: at.Truncate(time.Second), Data: data}); err != nil {
		return err
	}
	return s.SetSecureBoot(on)
}

// ClearPlatformKey deletes PK: the firmware is in setup mode then, and keeps the others.
func (s *Store) ClearPlatformKey() error { return s.Delete(GlobalVendor, "PK") }

// CopyKeys replaces PK, KEK, db and dbx by those of another store, as they are there. The
// error is ErrNoPlatformKey if that has none.
func (s *Store) CopyKeys(from *Store) error {
	if _, ok := from.Get(GlobalVendor, "PK"); !ok {
		return fmt.Errorf("copying the keys of secure boot: %w", ErrNoPlatformKey)
	}
	if err := s.ClearKeys(); err != nil {
		return err
	}
	for _, key := range databases {
		v, ok := from.Get(key.vendor, key.name)
		if !ok {
			continue
		}
		if err := s.Set(v); err != nil {
			return err
		}
	}
	return nil
}

// SecureBoot tells whether the firmware enforces secure boot at its next start: it
// has a platform key, and edk2's switch is on or was never touched.
func (s *Store) SecureBoot() bool {
	if _, ok := s.Get(GlobalVendor, "PK"); !ok {
		return false
	}
	v, ok := s.Get(SecureBootEnableVendor, "SecureBootEnable")
	return !ok || len(v.Data) == 1 && v.Data[0] == 1
}

// SetSecureBoot turns secure boot on or off and keeps the keys. The error is
// ErrNoPlatformKey if it is to be on and there is no key.
func (s *Store) SetSecureBoot(on bool) error {
	if _, ok := s.Get(GlobalVendor, "PK"); !ok {
		if on {
			return fmt.Errorf("turning secure boot on: %w", ErrNoPlatformKey)
		}
		return nil // without a key it is off already
	}
	value := byte(0)
	if on {
		value = 1
	}
	return s.Set(Variable{Vendor: SecureBootEnableVendor, Name: "SecureBootEnable", Attributes: NonVolatile | BootService, Data: []byte{value}})
}

// signatureLists is a list for each certificate: all signatures of one list have the
// same size.
func signatureLists(owner uuid.UUID, certificates [][]byte) []byte {
	var raw []byte
	for _, der := range certificates {
		raw = appendGUID(raw, certX509)
		raw = le.AppendUint32(raw, uint32(listHeader+signerOwner+len(der)))
		raw = le.AppendUint32(raw, 0)
		raw = le.AppendUint32(raw, uint32(signerOwner+len(der)))
		raw = appendGUID(raw, owner)
		raw = append(raw, der...)
	}
	return raw
}

// certificates returns those of a variable, and the first one's owner.
func (s *Store) certificates(vendor uuid.UUID, name string) (certificates [][]byte, owner uuid.UUID, err error) {
	v, ok := s.Get(vendor, name)
	if !ok {
		return nil, uuid.Nil, nil
	}
	for raw := v.Data; len(raw) > 0; {
		if len(raw) < listHeader {
			return nil, uuid.Nil, fmt.Errorf("%s: a signature list is cut off", name)
		}
		size, header, each := uint64(le.Uint32(raw[16:])), uint64(le.Uint32(raw[20:])), uint64(le.Uint32(raw[24:]))
		if size > uint64(len(raw)) || listHeader+header > size || each < signerOwner || (size-listHeader-header)%each != 0 {
			return nil, uuid.Nil, fmt.Errorf("%s: a signature list of %d bytes, signatures of %d", name, size, each)
		}
		if guidAt(raw) == certX509 {
			for at := listHeader + header; at < size; at += each {
				if certificates == nil {
					owner = guidAt(raw[at:])
				}
				certificates = append(certificates, bytes.Clone(raw[at+signerOwner:at+each]))
			}
		}
		raw = raw[size:]
	}
	return certificates, owner, nil
}
