package partition

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf16"
)

// entry is a GPT partition entry (UEFI 2.10, table 5-6).
type entry []byte

func (g *gpt) entry(i int) entry { return entry(g.entries[i*g.size : (i+1)*g.size]) }

func (e entry) free() bool {
	for _, b := range e[:16] {
		if b != 0 {
			return false
		}
	}
	return true
}

func (e entry) first() uint64 { return le.Uint64(e[32:]) }
func (e entry) last() uint64  { return le.Uint64(e[40:]) }

func (e entry) name() string {
	var units []uint16
	for i := 56; i < 128; i += 2 {
		u := le.Uint16(e[i:])
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}

// guid prints 16 bytes in GPT's layout: the first three fields little-endian.
func guid(b []byte) string {
	return fmt.Sprintf("%08X-%04X-%04X-%04X-%012X", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

// parseGUID is guid's inverse, for constants.
func parseGUID(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		panic("partition: bad GUID constant " + s)
	}
	b[0], b[1], b[2], b[3] = b[3], b[2], b[1], b[0]
	b[4], b[5] = b[5], b[4]
	b[6], b[7] = b[7], b[6]
	return b
}
