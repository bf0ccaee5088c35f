package packed

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/ironyard/ironyard/protocol/seal"
)

// Texts of a form that stands for bytes. Each is appended as those bytes only if they are
// written in that very way again.

// leastHex is the shortest text that is taken for hexadecimal.
const leastHex = 16

func appendForm(b []byte, s string) ([]byte, bool) {
	switch n := len(s); {
	case n == 17 && s[2] == ':':
		return appendMAC(b, s)
	case n == 36 && s[8] == '-':
		return appendUUID(b, s)
	case n >= leastHex && n%2 == 0 && isHex(s):
		b = binary.AppendUvarint(append(b, tagHex), uint64(n/2))
		return unhex(b, s), true
	case n > len(seal.Prefix) && s[:len(seal.Prefix)] == seal.Prefix:
		return appendSealed(b, s)
	}
	return b, false
}

func appendMAC(b []byte, s string) ([]byte, bool) {
	for i := range len(s) {
		if colon := i%3 == 2; colon != (s[i] == ':') || !colon && !hexDigit(s[i]) {
			return b, false
		}
	}
	b = append(b, tagMAC)
	for i := 0; i < len(s); i += 3 {
		b = unhex(b, s[i:i+2])
	}
	return b, true
}

func appendUUID(b []byte, s string) ([]byte, bool) {
	if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return b, false
	}
	parts := [...]string{s[:8], s[9:13], s[14:18], s[19:23], s[24:]}
	for _, p := range parts {
		if !isHex(p) {
			return b, false
		}
	}
	b = append(b, tagUUID)
	for _, p := range parts {
		b = unhex(b, p)
	}
	return b, true
}

func appendSealed(b []byte, s string) ([]byte, bool) {
	text := s[len(seal.Prefix):]
	raw, err := base64.StdEncoding.AppendDecode(nil, []byte(text))
	if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
		return b, false
	}
	return appendBytes(append(b, tagSealed), raw), true
}

// text is the text of a form that stands for bytes.
func text(tag byte, raw []byte) string {
	switch tag {
	case tagMAC:
		var room [17]byte
		s := room[:0]
		for i := range raw {
			if i > 0 {
				s = append(s, ':')
			}
			s = hex.AppendEncode(s, raw[i:i+1])
		}
		return string(s)
	case tagUUID:
		var room [36]byte
		s := room[:0]
		for i, end := range [...]int{4, 6, 8, 10, 16} {
			if i > 0 {
				s = append(s, '-')
			}
			s = hex.AppendEncode(s, raw[[...]int{0, 4, 6, 8, 10}[i]:end])
		}
		return string(s)
	case tagHex:
		return hex.EncodeToString(raw)
	}
	var s strings.Builder
	s.Grow(len(seal.Prefix) + base64.StdEncoding.EncodedLen(len(raw)))
	s.WriteString(seal.Prefix)
	s.WriteString(base64.StdEncoding.EncodeToString(raw))
	return s.String()
}

func hexDigit(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func isHex(s string) bool {
	for i := range len(s) {
		if !hexDigit(s[i]) {
			return false
		}
	}
	return true
}

// unhex appends the bytes of a text that isHex.
func unhex(b []byte, s string) []byte {
	digit := func(c byte) byte {
		if c >= 'a' {
			return c - 'a' + 10
		}
		return c - '0'
	}
	for i := 0; i < len(s); i += 2 {
		b = append(b, digit(s[i])<<4|digit(s[i+1]))
	}
	return b
}
