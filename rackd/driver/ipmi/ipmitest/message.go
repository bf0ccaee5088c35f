package ipmitest

import "encoding/binary"

// Message is what stands in a datagram of a session that does not encrypt.
type Message struct {
	NetFn, Command uint8
	// Code is the completion code of an answer, whose NetFn is odd.
	Code uint8
	Data []byte
}

// Read reads a message; ok is false for a datagram of a login, and for one that is encrypted.
func Read(datagram []byte) (m Message, ok bool) {
	payload := datagram
	switch {
	case len(datagram) < 14:
		return m, false
	case datagram[4] == 0x06: // RMCP+
		if len(datagram) < 16 || datagram[5]&0x3F != 0 || datagram[5]&0x80 != 0 {
			return m, false
		}
		end := 16 + int(binary.LittleEndian.Uint16(datagram[14:]))
		if end > len(datagram) {
			return m, false
		}
		payload = datagram[16:end]
	case datagram[4] == 0:
		payload = datagram[14:]
	default:
		if len(datagram) < 30 {
			return m, false
		}
		payload = datagram[30:]
	}
	if len(payload) < 7 {
		return m, false
	}
	m = Message{NetFn: payload[1] >> 2, Command: payload[5], Data: payload[6 : len(payload)-1]}
	if m.NetFn&1 == 1 {
		if len(m.Data) == 0 {
			return m, false
		}
		m.Code, m.Data = m.Data[0], m.Data[1:]
	}
	return m, true
}

// Order reports whether a request changes something of the machine: its power, its boot flags or its light.
func (m Message) Order() bool {
	const chassis = 0x00
	return m.NetFn == chassis && (m.Command == 0x02 || m.Command == 0x04 || m.Command == 0x08 && len(m.Data) > 0 && m.Data[0] == 5)
}

// Question reports whether a request reads the machine's power or boot flags.
func (m Message) Question() bool {
	return m.NetFn == 0x00 && (m.Command == 0x01 || m.Command == 0x09)
}

// Refused reports whether a datagram ends a login that is refused. Of IPMI 2.0 that is the BMC's RAKP message 2 whose status is not 0. Or
// it is the driver's RAKP message 3 with such a status: the password is another one. What a BMC answers to that is the same login.
// Of IPMI 1.5 it is the BMC's completion code for the challenge or the session. A BMC that is out of space or does not know the session, as
// one that has just started, refuses no credentials. Nor does one that a repeated message 1 reaches after message 3: the session is open
// by then. BMCs that are silent to a wrong password are not counted: there is no datagram.
func Refused(datagram []byte) bool {
	if len(datagram) < 18 {
		return false
	}
	if datagram[4] != 0x06 {
		return refused15(datagram)
	}
	kind := datagram[5] & 0x3F
	const noSpace, noSession, notInLogin = 0x01, 0x02, 0x08 // table 13-15
	status := datagram[17]
	return (kind == 0x13 || kind == 0x14) && status != 0 && status != noSpace && status != noSession && status != notInLogin
}

// refused15 is Refused for the answers of IPMI 1.5.
func refused15(datagram []byte) bool {
	const answerOfApp, challenge, activate = 0x07, 0x39, 0x3A
	m, ok := Read(datagram)
	if !ok || m.NetFn != answerOfApp || m.Code == 0 {
		return false
	}
	switch m.Command {
	case challenge:
		return m.Code == 0x81 || m.Code == 0x82 // no such user
	case activate:
		return m.Code < 0x81 || m.Code > 0x85 // without those for: no session left, and no such session
	}
	return false
}
