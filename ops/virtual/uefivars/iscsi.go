package uefivars

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// ErrNoAttempts means that the firmware has not written its iSCSI attempts yet, so
// that their layout is not known. It writes them at its first start.
var ErrNoAttempts = errors.New("the firmware has not written its iSCSI attempts: start it once")

// MaxAttempts is how many iSCSI attempts the firmware has.
const MaxAttempts = 8

// Attempt is a way to an iSCSI disk. The firmware logs in before it boots, makes a
// boot option for the disk and leaves an iBFT for the system.
type Attempt struct {
	// MAC is the network card's.
	MAC net.HardwareAddr
	// Local is the initiator's address and network; the zero value is DHCP.
	Local   netip.Prefix
	Gateway netip.Addr
	// Target is the portal, IPv4 or IPv6; TargetName its IQN.
	Target     netip.AddrPort
	TargetName string
	LUN        uint16
	// ConnectTimeout is for one try; 0 means a second. Retries are after the first.
	ConnectTimeout time.Duration
	Retries        uint8
	// CHAP is the proof of identity; nil is none.
	CHAP *CHAP
}

// CHAP has the initiator's name and secret, and those of the target if it has to
// prove itself as well.
type CHAP struct {
	Name, Secret               string
	ReverseName, ReverseSecret string
}

// Offsets in an attempt (ISCSI_ATTEMPT_CONFIG_NVDATA of edk2,
// NetworkPkg/IScsiDxe/IScsiConfigNVDataStruct.h and IScsiConfig.h). It is packed.
const (
	attemptNumber   = 17
	attemptName     = 26
	attemptMAC      = 38
	targetPort      = 182
	enabled         = 184
	ipMode          = 185
	localIP         = 186
	localMask       = 202
	localGateway    = 206
	byDHCP          = 222
	targetName      = 224
	targetIP        = 448
	prefixLength    = 464
	targetLUN       = 465
	connectTimeout  = 473
	connectRetries  = 475
	isid            = 476
	authentication  = 757
	chapType        = 758
	chapName        = 759
	chapSecret      = 886
	reverseName     = 903
	reverseSecret   = 1030
	attemptActive   = 1048
	attemptSize     = 1049
	macSize         = 96
	nameSize        = 224
	chapNameSize    = 127
	chapSecretSize  = 17
	minChapSecret   = 12
	defaultTimeout  = time.Second
	iscsiAttributes = NonVolatile | BootService
)

func attemptVariable(number int) string { return fmt.Sprintf("Attempt %d", number) }

// ISCSI returns the initiator's name and the attempts in use, in their order.
func (s *Store) ISCSI() (initiator string, attempts []Attempt, err error) {
	if v, ok := s.Get(ISCSIInitiatorVendor, "I_NAME"); ok {
		initiator = untilNUL(v.Data)
	}
	order, ok := s.Get(ISCSIConfigVendor, "AttemptOrder")
	if !ok {
		return initiator, nil, nil
	}
	for _, number := range order.Data {
		raw, err := s.attempt(int(number))
		if err != nil {
			return "", nil, err
		}
		a, err := decodeAttempt(raw)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", attemptVariable(int(number)), err)
		}
		attempts = append(attempts, a)
	}
	return initiator, attempts, nil
}

// CheckISCSI says what SetISCSI would refuse of initiator and attempts for any firmware.
func CheckISCSI(initiator string, attempts []Attempt) error {
	if len(attempts) > MaxAttempts {
		return fmt.Errorf("%d iSCSI attempts; the firmware has %d", len(attempts), MaxAttempts)
	}
	if len(attempts) > 0 && (initiator == "" || len(initiator) >= nameSize) {
		return fmt.Errorf("iSCSI initiator %q: a name has 1 to %d bytes", initiator, nameSize-1)
	}
	for i, a := range attempts {
		if err := a.encode(make([]byte, attemptSize)); err != nil {
			return fmt.Errorf("iSCSI attempt %d: %w", i+1, err)
		}
	}
	return nil
}

// SetISCSI sets initiator and attempts; without attempts the firmware logs in
// nowhere. The error is ErrNoAttempts if the firmware never ran, and ErrLayout if
// its attempts are not those that this package knows: nothing is written then.
func (s *Store) SetISCSI(initiator string, attempts []Attempt) error {
	if err := CheckISCSI(initiator, attempts); err != nil {
		return err
	}
	var order []byte
	var changed []Variable
	for number := 1; number <= MaxAttempts; number++ {
		raw, err := s.attempt(number)
		if err != nil {
			return err
		}
		raw[enabled], raw[attemptActive] = 0, 0
		if number <= len(attempts) {
			if err := attempts[number-1].encode(raw); err != nil {
				return fmt.Errorf("iSCSI attempt %d: %w", number, err)
			}
			order = append(order, byte(number))
		}
		changed = append(changed, Variable{Vendor: ISCSIInitiatorVendor, Name: attemptVariable(number), Attributes: iscsiAttributes, Data: raw})
	}
	if len(order) == 0 {
		if err := s.Delete(ISCSIConfigVendor, "AttemptOrder"); err != nil {
			return err
		}
	} else {
		changed = append(changed,
			Variable{Vendor: ISCSIConfigVendor, Name: "AttemptOrder", Attributes: iscsiAttributes, Data: order},
			Variable{Vendor: ISCSIInitiatorVendor, Name: "I_NAME", Attributes: iscsiAttributes, Data: append([]byte(initiator), 0)})
	}
	for _, v := range changed {
		if err := s.Set(v); err != nil {
			return err
		}
	}
	return nil
}

// attempt returns what the firmware wrote for an attempt, if it is of the known form.
func (s *Store) attempt(number int) ([]byte, error) {
	v, ok := s.Get(ISCSIInitiatorVendor, attemptVariable(number))
	if !ok {
		return nil, fmt.Errorf("%s: %w", attemptVariable(number), ErrNoAttempts)
	}
	if len(v.Data) != attemptSize || v.Attributes != iscsiAttributes {
		return nil, fmt.Errorf("%w: %s has %d bytes, attributes %#x, not %d and %#x",
			ErrLayout, v.Name, len(v.Data), v.Attributes, attemptSize, iscsiAttributes)
	}
	if v.Data[attemptNumber] != byte(number) || untilNUL(v.Data[attemptName:attemptMAC]) != v.Name {
		return nil, fmt.Errorf("%w: %s does not name itself", ErrLayout, v.Name)
	}
	return v.Data, nil
}

// encode writes the attempt over what the firmware wrote.
func (a Attempt) encode(raw []byte) error {
	switch {
	case len(a.MAC) != 6:
		return fmt.Errorf("%q is no Ethernet address", a.MAC)
	case !a.Target.IsValid() || a.Target.Port() == 0:
		return fmt.Errorf("the portal %s has no address or no port", a.Target)
	case a.TargetName == "":
		return errors.New("the target has no name")
	case a.Local.IsValid() && a.Local.Addr().Is4() != a.Target.Addr().Is4():
		return fmt.Errorf("%s does not reach %s", a.Local, a.Target)
	case a.Gateway.IsValid() && (!a.Local.IsValid() || a.Gateway.Is4() != a.Local.Addr().Is4()):
		return fmt.Errorf("the gateway %s is not for %s", a.Gateway, a.Local)
	}
	timeout := a.ConnectTimeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	// The firmware's own bounds, CONNECT_MIN_TIMEOUT and the others of IScsiConfig.h.
	if timeout < 100*time.Millisecond || timeout > 20*time.Second || a.Retries > 16 {
		return fmt.Errorf("a time of %s and %d retries; the firmware takes 100ms to 20s and 16", timeout, a.Retries)
	}
	for _, field := range []struct {
		at, size int
		text     string
	}{
		{attemptMAC, macSize, strings.ToUpper(a.MAC.String())},
		{targetName, nameSize, a.TargetName},
	} {
		if err := putText(raw[field.at:field.at+field.size], field.text); err != nil {
			return err
		}
	}
	le.PutUint16(raw[targetPort:], a.Target.Port())
	raw[enabled], raw[ipMode] = 1, 0
	if a.Target.Addr().Is6() {
		raw[ipMode] = 1
	}
	clear(raw[localIP : byDHCP+2])
	raw[prefixLength] = 0
	raw[byDHCP] = 1
	if a.Local.IsValid() {
		raw[byDHCP] = 0
		copy(raw[localIP:], a.Local.Addr().AsSlice())
		if a.Local.Addr().Is4() {
			copy(raw[localMask:localMask+4], net.CIDRMask(a.Local.Bits(), 32))
		}
		raw[prefixLength] = byte(a.Local.Bits())
		if a.Gateway.IsValid() {
			copy(raw[localGateway:], a.Gateway.AsSlice())
		}
	}
	clear(raw[targetIP:prefixLength])
	copy(raw[targetIP:], a.Target.Addr().AsSlice())
	clear(raw[targetLUN:connectTimeout])
	raw[targetLUN], raw[targetLUN+1] = byte(a.LUN>>8), byte(a.LUN)
	le.PutUint16(raw[connectTimeout:], uint16(timeout/time.Millisecond))
	raw[connectRetries] = a.Retries
	clear(raw[isid:authentication]) // redirections and a target by name, too
	copy(raw[isid:isid+6], a.MAC)
	raw[isid] &= 0x3f
	raw[attemptActive] = 1
	return a.CHAP.encode(raw)
}

func (c *CHAP) encode(raw []byte) error {
	clear(raw[authentication : reverseSecret+chapSecretSize])
	if c == nil {
		return nil
	}
	raw[authentication] = 1
	fields := map[int]string{chapName: c.Name, chapSecret: c.Secret}
	if c.ReverseName != "" || c.ReverseSecret != "" {
		raw[chapType] = 1
		fields[reverseName], fields[reverseSecret] = c.ReverseName, c.ReverseSecret
	}
	for at, text := range fields {
		size := chapNameSize
		if at == chapSecret || at == reverseSecret {
			size = chapSecretSize
			if len(text) < minChapSecret {
				return fmt.Errorf("a CHAP secret has %d to %d bytes, not %d", minChapSecret, size-1, len(text))
			}
		}
		if text == "" {
			return errors.New("a CHAP name is empty")
		}
		if err := putText(raw[at:at+size], text); err != nil {
			// The text may be a secret.
			return fmt.Errorf("a CHAP name or secret has %d bytes, or one that is NUL; it has room for %d", len(text), size-1)
		}
	}
	return nil
}

func decodeAttempt(raw []byte) (Attempt, error) {
	mac, err := net.ParseMAC(untilNUL(raw[attemptMAC : attemptMAC+macSize]))
	if err != nil {
		return Attempt{}, err
	}
	address := func(at int) netip.Addr {
		if raw[ipMode] == 1 {
			return netip.AddrFrom16([16]byte(raw[at : at+16]))
		}
		return netip.AddrFrom4([4]byte(raw[at : at+4]))
	}
	a := Attempt{
		MAC: mac, Target: netip.AddrPortFrom(address(targetIP), le.Uint16(raw[targetPort:])), TargetName: untilNUL(raw[targetName : targetName+nameSize]),
		LUN:            uint16(raw[targetLUN])<<8 | uint16(raw[targetLUN+1]),
		ConnectTimeout: time.Duration(le.Uint16(raw[connectTimeout:])) * time.Millisecond, Retries: raw[connectRetries],
	}
	if raw[byDHCP] == 0 {
		bits := int(raw[prefixLength])
		if raw[ipMode] != 1 {
			bits, _ = net.IPMask(raw[localMask : localMask+4]).Size()
		}
		a.Local = netip.PrefixFrom(address(localIP), bits)
		if g := address(localGateway); !g.IsUnspecified() {
			a.Gateway = g
		}
	}
	if raw[authentication] == 1 {
		a.CHAP = &CHAP{Name: untilNUL(raw[chapName : chapName+chapNameSize]), Secret: untilNUL(raw[chapSecret : chapSecret+chapSecretSize])}
		if raw[chapType] == 1 {
			a.CHAP.ReverseName = untilNUL(raw[reverseName : reverseName+chapNameSize])
			a.CHAP.ReverseSecret = untilNUL(raw[reverseSecret : reverseSecret+chapSecretSize])
		}
	}
	return a, nil
}

// putText writes text and fills its field with NUL.
func putText(field []byte, text string) error {
	if len(text) >= len(field) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%q has no place in %d bytes", text, len(field))
	}
	clear(field)
	copy(field, text)
	return nil
}

func untilNUL(raw []byte) string {
	text, _, _ := bytes.Cut(raw, []byte{0})
	return string(text)
}
