package lan

import (
	"encoding/binary"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// Addresses, network functions and commands that a session itself needs (sections 5.5, 5.1, 22).
const (
	addressBMC     = 0x20
	addressConsole = 0x81

	netFnApp = 0x06

	cmdSendMessage  = 0x34
	cmdCapabilities = 0x38
	cmdChallenge    = 0x39
	cmdActivate     = 0x3A
	cmdPrivilege    = 0x3B
	cmdCloseSession = 0x3C
)

// Payload types (section 13.27.3).
const (
	payloadIPMI         = 0x00
	payloadSOL          = 0x01
	payloadOpen         = 0x10
	payloadOpenResponse = 0x11
	payloadRAKP1        = 0x12
	payloadRAKP2        = 0x13
	payloadRAKP3        = 0x14
	payloadRAKP4        = 0x15

	flagEncrypted     = 0x80
	flagAuthenticated = 0x40
)

// largest is more than any datagram of IPMI has.
const largest = 1024

// rmcp begins each datagram: version 1.0, no acknowledgement, class IPMI (section 13.1.3).
var rmcp = [4]byte{0x06, 0x00, 0xFF, 0x07}

// checksum is the two's complement of the sum (section 13.8).
func checksum(b []byte) (sum uint8) {
	for _, v := range b {
		sum -= v
	}
	return sum
}

// packMessage is a request as it stands in a payload or on a bus (section 13.8).
func packMessage(to, from, seq uint8, r Request) []byte {
	b := make([]byte, 0, 7+len(r.Data))
	b = append(b, to, r.NetFn<<2|r.LUN&3, 0, from, seq<<2, r.Command)
	b[2] = checksum(b[:2])
	b = append(b, r.Data...)
	return append(b, checksum(b[3:]))
}

// answer is a response as it stands in a payload.
type answer struct {
	netFn, seq, command, code uint8
	data                      []byte
	// whole: both of its checksums are right.
	whole bool
}

func parseAnswer(b []byte) (a answer, ok bool) {
	if len(b) < 8 {
		return a, false
	}
	last := len(b) - 1
	return answer{netFn: b[1] >> 2, seq: b[4] >> 2, command: b[5], code: b[6], data: b[7:last],
		whole: b[2] == checksum(b[:2]) && b[last] == checksum(b[3:last])}, true
}

// packPlain is a datagram outside of sessions in the format of version 1.5 (section 13.6).
func packPlain(payload []byte) []byte {
	b := append(rmcp[:4:4], uint8(types.AuthTypeNone), 0, 0, 0, 0, 0, 0, 0, 0, uint8(len(payload)))
	return append(b, payload...)
}

// packSetup is a datagram of the login of version 2.0.
func packSetup(payloadType uint8, payload []byte) []byte {
	b := append(rmcp[:4:4], uint8(types.AuthTypeRMCPPlus), payloadType, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(payload)))
	return append(b, payload...)
}

// parseSetup takes the payload out of a datagram of the login.
func parseSetup(b []byte, payloadType uint8) (payload []byte, ok bool) {
	h, payload, ok := parse20(b)
	if !ok || h.payloadType != payloadType || h.session != 0 {
		return nil, false
	}
	return payload, true
}

// head20 is the header of a datagram of version 2.0.
type head20 struct {
	payloadType    uint8 // with its flags
	session, count uint32
	// end is where the payload ends.
	end int
}

const before20 = 4 + 12

func parse20(b []byte) (h head20, payload []byte, ok bool) {
	if len(b) < before20 || b[0] != rmcp[0] || b[3] != rmcp[3] || b[4] != uint8(types.AuthTypeRMCPPlus) {
		return h, nil, false
	}
	h = head20{payloadType: b[5], session: binary.LittleEndian.Uint32(b[6:]), count: binary.LittleEndian.Uint32(b[10:])}
	h.end = before20 + int(binary.LittleEndian.Uint16(b[14:]))
	if h.end > len(b) {
		return h, nil, false
	}
	return h, b[before20:h.end], true
}

// parse15 takes apart a datagram of version 1.5.
func parse15(b []byte) (auth types.AuthType, session, count uint32, code, payload []byte, ok bool) {
	if len(b) < 14 || b[0] != rmcp[0] || b[3] != rmcp[3] || b[4] == uint8(types.AuthTypeRMCPPlus) {
		return 0, 0, 0, nil, nil, false
	}
	auth, count, session = types.AuthType(b[4]), binary.LittleEndian.Uint32(b[5:]), binary.LittleEndian.Uint32(b[9:])
	rest := b[13:]
	if auth != types.AuthTypeNone {
		if len(rest) < 17 {
			return 0, 0, 0, nil, nil, false
		}
		code, rest = rest[:16], rest[16:]
	}
	if n := int(rest[0]); len(rest) < 1+n {
		return 0, 0, 0, nil, nil, false
	} else {
		return auth, session, count, code, rest[1 : 1+n], true
	}
}

// guard is how the datagrams of an open session are closed and checked.
type guard interface {
	// seal makes the next datagram around a message.
	seal(payload []byte) ([]byte, error)
	// open returns the message in a datagram that is of the session, was not changed, and is new.
	open(datagram []byte) (payload []byte, ok bool)
	// sound: a message that open lets through is as the BMC made it.
	sound() bool
}

// window is the sliding window of the numbers that have arrived (section 6.12.13): it holds back duplicates.
type window struct {
	top  uint32
	seen uint64 // bit i: top-i has arrived
}

// fresh notes a number and reports whether it is new and not too old.
func (w *window) fresh(n uint32) bool {
	switch ahead := int32(n - w.top); {
	case w.seen == 0 || ahead > 0:
		if ahead > 0 && ahead < 64 {
			w.seen = w.seen << ahead
		} else {
			w.seen = 0
		}
		w.seen |= 1
		w.top = n
		return true
	case ahead <= -64:
		return false
	default:
		bit := uint64(1) << -ahead
		old := w.seen & bit
		w.seen |= bit
		return old == 0
	}
}

// guard20 is a session of version 2.0.
type guard20 struct {
	integrity     types.IntegrityAlg
	crypt         types.CryptAlg
	k1, k2        []byte
	password      string
	console, bmc  uint32 // session ids
	count         uint32
	arrived       window
	authenticator int // bytes of the authentication code
}

func (g *guard20) sound() bool { return true }

func (g *guard20) seal(payload []byte) ([]byte, error) { return g.sealAs(payloadIPMI, payload) }

// sealAs makes the next datagram around a payload of a type.
func (g *guard20) sealAs(payloadType uint8, payload []byte) ([]byte, error) {
	flags := uint8(flagAuthenticated)
	if g.crypt == types.CryptAlg_AES_CBC_128 {
		var err error
		if payload, err = crypto.EncryptAESPayload(payload, g.k2, crypto.RandomBytes(16)); err != nil {
			return nil, err
		}
		flags |= flagEncrypted
	}
	if g.count++; g.count == 0 {
		g.count = 1
	}
	b := make([]byte, 0, before20+len(payload)+32)
	b = append(b, rmcp[:]...)
	b = append(b, uint8(types.AuthTypeRMCPPlus), payloadType|flags)
	b = binary.LittleEndian.AppendUint32(b, g.bmc)
	b = binary.LittleEndian.AppendUint32(b, g.count)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, payload...)
	pad := uint8(0)
	for (len(b)-4+2)%4 != 0 { // section 13.28.4: what is authenticated is a multiple of four
		b = append(b, 0xFF)
		pad++
	}
	b = append(b, pad, 0x07)
	code, err := crypto.SessionIntegrityAuthCode(g.integrity, b[4:], g.k1, g.password)
	if err != nil {
		return nil, err
	}
	return append(b, code...), nil
}

func (g *guard20) open(b []byte) ([]byte, bool) { return g.openAs(payloadIPMI, b) }

// openAs is open for payloads of a type.
func (g *guard20) openAs(payloadType uint8, b []byte) ([]byte, bool) {
	h, payload, ok := parse20(b)
	if !ok || h.session != g.console || h.payloadType&flagAuthenticated == 0 || h.payloadType&0x3F != payloadType {
		return nil, false
	}
	end := len(b) - g.authenticator
	if end < h.end+2 {
		return nil, false
	}
	code, err := crypto.SessionIntegrityAuthCode(g.integrity, b[4:end], g.k1, g.password)
	if err != nil || !crypto.Equal(code, b[end:]) || !g.arrived.fresh(h.count) {
		return nil, false
	}
	encrypted := h.payloadType&flagEncrypted != 0
	if encrypted != (g.crypt == types.CryptAlg_AES_CBC_128) {
		return nil, false
	}
	if !encrypted {
		return payload, true
	}
	if len(payload) < 32 || len(payload)%16 != 0 {
		return nil, false
	}
	plain, err := crypto.DecryptAESPayload(payload, g.k2)
	return plain, err == nil
}

// guard15 is a session of version 1.5.
type guard15 struct {
	auth     types.AuthType
	password []byte
	session  uint32
	count    uint32 // of the next datagram; 0 stays 0 until the session is active
	active   bool
	arrived  window
}

func (g *guard15) sound() bool { return g.auth != types.AuthTypeNone }

func (g *guard15) seal(payload []byte) ([]byte, error) {
	count := g.count
	if g.active {
		if g.count++; g.count == 0 {
			g.count = 1
		}
	}
	b := append(rmcp[:4:4], uint8(g.auth))
	b = binary.LittleEndian.AppendUint32(b, count)
	b = binary.LittleEndian.AppendUint32(b, g.session)
	if g.auth != types.AuthTypeNone {
		b = append(b, crypto.AuthCodeMultiSession(g.auth, g.password, g.session, count, payload)...)
	}
	return append(append(b, uint8(len(payload))), payload...), nil
}

func (g *guard15) open(b []byte) ([]byte, bool) {
	auth, session, count, code, payload, ok := parse15(b)
	if !ok || g.active && session != g.session || auth != g.auth {
		return nil, false
	}
	if auth != types.AuthTypeNone && !crypto.VerifyMultiSessionAuthCode(auth, g.password, session, count, payload, code) {
		return nil, false
	}
	if g.active && !g.arrived.fresh(count) {
		return nil, false
	}
	return payload, true
}

// bare is the time before a session: what is said is neither sealed nor counted.
type bare struct{}

func (bare) seal(payload []byte) ([]byte, error) { return packPlain(payload), nil }
func (bare) sound() bool                         { return false }
func (bare) open(b []byte) ([]byte, bool) {
	auth, session, _, _, payload, ok := parse15(b)
	return payload, ok && auth == types.AuthTypeNone && session == 0
}
