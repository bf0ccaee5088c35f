package vbmc

import (
	"context"
	"errors"
	"net/netip"
)

// What a Computer may be able to do beyond its interface. The BMC shows a resource, a
// property or an allowable value only if its Computer implements the ability, and the
// ability's first method does not say errors.ErrUnsupported. A setting that a Computer
// does not take is an error that is errors.ErrUnsupported, too: its text is the answer.

// HTTPBooter is a Computer whose firmware fetches what it boots from a URI. It knows the
// boot device HTTP.
type HTTPBooter interface {
	// HTTPBootURI is the URI that HTTP stands for; empty is one that DHCP names.
	HTTPBootURI() (string, error)
	SetHTTPBootURI(uri string) error
}

// BootOrderer is a Computer whose firmware has boot options in an order.
type BootOrderer interface {
	// BootOptions are those of the firmware. The first are in the order of its next start:
	// as many as ordered says.
	BootOptions() (options []BootOption, ordered int, err error)
	// OrderBoot sets the order from the next start on, by the options' names.
	OrderBoot(names []string) error
}

// BootOption is something that firmware may boot.
type BootOption struct {
	// Name is that of its variable, such as Boot0001. Path is its UEFI device path as text.
	Name, Description, Path string
	Active                  bool
}

// SecureBooter is a Computer with UEFI secure boot. What is set acts at the next start.
type SecureBooter interface {
	SecureBoot() (SecureBoot, error)
	SetSecureBoot(on bool) error
	ResetKeys(KeyReset) error
}

// SecureBoot is the state of secure boot.
type SecureBoot struct {
	// Next tells whether the firmware enforces it from its next start on; Now, whether
	// it did at its last start.
	Next, Now bool
	// PlatformKey tells whether there is one now: without it the firmware is in setup mode.
	PlatformKey bool
	// Problem is why the last start did not act on what is set; empty without one.
	Problem string
}

// KeyReset is a reset of the keys of secure boot, in Redfish's words.
type KeyReset string

// The resets (SecureBoot.v1_1_0, ResetKeysType).
const (
	DefaultKeys   KeyReset = "ResetAllKeysToDefault"
	NoKeys        KeyReset = "DeleteAllKeys"
	NoPlatformKey KeyReset = "DeletePK"
)

// KeyHolder is a SecureBooter whose certificates can be read and added to. A database is
// PK, KEK, db or dbx; certificates are in DER.
type KeyHolder interface {
	SecureBooter
	// Certificates are those of the firmware's next start.
	Certificates(database string) ([][]byte, error)
	AddCertificate(database string, certificate []byte) error
}

// ISCSIBooter is a Computer whose firmware logs in to iSCSI disks. What is set acts at
// the next start.
type ISCSIBooter interface {
	// ISCSIBoot is what the firmware logs in with now, and what it will log in with from
	// its next start on; nil is the same. Problem is why the last start did not act on
	// next; empty without one.
	ISCSIBoot() (now ISCSIBoot, next *ISCSIBoot, problem string, err error)
	SetISCSIBoot(ISCSIBoot) error
}

// ISCSIBoot is how firmware logs in to an iSCSI disk.
type ISCSIBoot struct {
	// Initiator is the IQN of the computer.
	Initiator string
	// Address is the computer's with its network, Gateway its router; the zero values
	// are what DHCP tells.
	Address netip.Prefix
	Gateway netip.Addr
	// Targets are tried in their order; Redfish knows two. None: the firmware logs in nowhere.
	Targets []ISCSITarget
	// CHAP is the proof of identity; nil is none.
	CHAP *CHAP
}

// ISCSITarget is a disk at an iSCSI target.
type ISCSITarget struct {
	Name   string
	Portal netip.AddrPort
	LUN    uint16
}

// CHAP has the computer's name and secret, and those of the target if that proves itself
// as well.
type CHAP struct {
	Name, Secret               string
	ReverseName, ReverseSecret string
}

// BootCounter is a Computer that tells how often it was started. It has firmware that the BMC can write: at its next start.
type BootCounter interface {
	Starts() uint64
}

// ProgressTeller is a Computer that tells how far its start has come.
type ProgressTeller interface {
	Progress() (Progress, error)
}

// Progress is how far a start has come, in Redfish's words.
type Progress string

// How far it may be (ComputerSystem.v1_13_0, BootProgressTypes).
const (
	NoProgress Progress = "None" // the computer is off
	InFirmware Progress = "PCIResourceConfigStarted"
	// PastFirmware: the firmware tries its boot options.
	PastFirmware Progress = "SystemHardwareInitializationComplete"
)

// MediaDrive is a Computer with a CD drive. The drive of a BMC whose Computer has none
// remembers an image and does nothing with it.
type MediaDrive interface {
	// Medium is the image in the drive, empty for none. Problem is why the computer
	// found it unreadable when it started.
	Medium() (image string, problem error)
	// InsertMedium takes URLs of HTTP. It fetches nothing while the computer is off; if it is
	// on, the error says why the image cannot be read, and the drive stays empty.
	InsertMedium(ctx context.Context, image string) error
	// EjectMedium acts on a computer that is on, too. An empty drive is no error.
	EjectMedium(ctx context.Context) error
}

// StickDrive is a Computer with a second drive, of a USB stick.
type StickDrive interface {
	// Stick is the image in the drive, as Medium is. The error is errors.ErrUnsupported for a Computer that has no such drive.
	Stick() (image string, problem, err error)
	InsertStick(ctx context.Context, image string) error
	EjectStick(ctx context.Context) error
}

// FloppyDrive is a Computer with a drive of a floppy. It does not boot from it.
type FloppyDrive interface {
	// Floppy is the image in the drive, as Medium is. The error is errors.ErrUnsupported for a Computer that has no such drive.
	Floppy() (image string, problem, err error)
	InsertFloppy(ctx context.Context, image string) error
	EjectFloppy(ctx context.Context) error
}

// able tells whether a Computer that implements an ability has it, by the error of the
// ability's first method.
func able(err error) bool { return !errors.Is(err, errors.ErrUnsupported) }

func (b *BMC) httpBooter() (HTTPBooter, bool) {
	h, ok := b.computer.(HTTPBooter)
	if ok {
		_, err := h.HTTPBootURI()
		ok = able(err)
	}
	return h, ok
}

func (b *BMC) bootOrderer() (BootOrderer, bool) {
	o, ok := b.computer.(BootOrderer)
	if ok {
		_, _, err := o.BootOptions()
		ok = able(err)
	}
	return o, ok
}

func (b *BMC) secureBooter() (SecureBooter, bool) {
	s, ok := b.computer.(SecureBooter)
	if ok {
		_, err := s.SecureBoot()
		ok = able(err)
	}
	return s, ok
}

func (b *BMC) iscsiBooter() (ISCSIBooter, bool) {
	i, ok := b.computer.(ISCSIBooter)
	if ok {
		_, _, _, err := i.ISCSIBoot()
		ok = able(err)
	}
	return i, ok
}
