package lan

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"
)

func newGuard20(crypt types.CryptAlg) *guard20 {
	return &guard20{integrity: types.IntegrityAlg_HMAC_SHA1_96, crypt: crypt, k1: bytes.Repeat([]byte{1}, 20), k2: bytes.Repeat([]byte{2}, 20), console: 7, bmc: 7, authenticator: 12}
}

// What is sealed opens once, and only as it was sealed.
func TestSeal(t *testing.T) {
	for _, g := range []guard{newGuard20(types.CryptAlg_AES_CBC_128), newGuard20(types.CryptAlg_None),
		&guard15{auth: types.AuthTypeMD5, password: []byte("x"), session: 7, count: 9, active: true}} {
		for size := range 40 {
			message := bytes.Repeat([]byte{0xA5}, size)
			b, err := g.seal(message)
			if err != nil {
				t.Fatal(err)
			}
			for i := range b {
				changed := slices.Clone(b)
				changed[i] ^= 0x10
				if payload, ok := g.open(changed); ok && i >= 4 && i != len(rmcp)+1 {
					t.Fatalf("%T: byte %d of %d was changed, and %x was let through", g, i, len(b), payload)
				}
				if _, ok := g.open(b[:i]); ok {
					t.Fatalf("%T: %d bytes of %d were let through", g, i, len(b))
				}
			}
			b, err = g.seal(message)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := g.open(b)
			if !ok || !bytes.Equal(got, message) {
				t.Fatalf("%T: %x, %t; want %x", g, got, ok, message)
			}
			if _, again := g.open(b); again {
				t.Fatalf("%T: a duplicate was let through", g)
			}
		}
	}
}

// The window of numbers lets each through once, in any order within reach.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		numbers []uint32
		want    string
	}{
		{[]uint32{1, 2, 3, 2, 1, 4}, "yyynny"},
		{[]uint32{5, 3, 4, 3, 70, 6, 7, 8}, "yyynynyy"},
		{[]uint32{1, 1000, 936, 937, 1}, "yynyn"},
		{[]uint32{0xFFFFFFFF, 1, 0xFFFFFFFF, 0xFFFFFFFE, 2}, "yynyy"},
		{[]uint32{0, 0, 1}, "yny"},
	} {
		var w window
		got := ""
		for _, n := range c.numbers {
			got += map[bool]string{true: "y", false: "n"}[w.fresh(n)]
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.numbers, got, c.want)
		}
	}
}

// Messages and bridges are as sections 13.8 and 22.7 have them. TestBridge of ops/virtual/ipmisim has them judged.
func TestPack(t *testing.T) {
	r := Request{NetFn: 0x06, Command: 0x01}
	if got := hex.EncodeToString(packMessage(addressBMC, addressConsole, 1, r)); got != "2018c88104017a" {
		t.Errorf("message %s", got)
	}
	single := (&Bridge{Local: 0x20, TargetChannel: 7, TargetAddress: 0x72}).wrap(1, r)
	if got := hex.EncodeToString(single.Data); got != "47721876200401db" || single.Command != cmdSendMessage {
		t.Errorf("single bridge %s", got)
	}
	dual := (&Bridge{Local: 0x20, Dual: true, TransitAddress: 0x82, TargetChannel: 7, TargetAddress: 0x72}).wrap(1, r)
	if got := hex.EncodeToString(dual.Data); got != "4082186620043447721876200401db"+hex.EncodeToString([]byte{checksum(append([]byte{0x20, 0x04, 0x34}, single.Data...))}) {
		t.Errorf("dual bridge %s", got)
	}
}

// Answers of bridges come within the answer to Send Message, or after it.
func TestUnwrap(t *testing.T) {
	r := Request{NetFn: 0x06, Command: 0x01}
	response := func(command, seq, code uint8, data ...byte) []byte {
		return packMessage(addressConsole, addressBMC, seq, Request{NetFn: netFnApp | 1, Command: command, Data: append([]byte{code}, data...)})
	}
	parsed := func(b []byte) answer {
		a, ok := parseAnswer(b)
		if !ok {
			t.Fatalf("%x is no answer", b)
		}
		return a
	}
	inner := response(0x01, 5, 0, 0xAA)
	for name, c := range map[string]struct {
		a      answer
		ok     bool
		failed bool
	}{
		"by itself": {parsed(inner), true, false},
		"within":    {parsed(response(cmdSendMessage, 5, 0, inner...)), true, false},
		"twofold":   {parsed(response(cmdSendMessage, 5, 0, response(cmdSendMessage, 5, 0, inner...)...)), true, false},
		"to come":   {parsed(response(cmdSendMessage, 5, 0)), false, false},
		"refused":   {parsed(response(cmdSendMessage, 5, 0x83)), false, true},
		"another":   {parsed(response(cmdSendMessage, 5, 0, response(0x01, 6, 0, 0xAA)...)), false, false},
	} {
		a, err, ok := unwrap(c.a, r, []uint8{5})
		if ok != c.ok || (err != nil) != c.failed || ok && (a.command != 0x01 || !bytes.Equal(a.data, []byte{0xAA})) {
			t.Errorf("%s: %+v, %v, %t", name, a, err, ok)
		}
	}
}

// The pieces of Options have their defaults.
func TestOptions(t *testing.T) {
	o := Options{}.filled()
	if o.wait() != 10*time.Second || o.Idle != 45*time.Second || o.Dial == nil {
		t.Errorf("%+v", o)
	}
}

// Whatever arrives, nothing panics, and nothing that is not sealed is let through.
func FuzzDatagram(f *testing.F) {
	g20 := newGuard20(types.CryptAlg_AES_CBC_128)
	b, err := g20.seal([]byte("a message"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(packPlain([]byte{0x81, 0x1C, 0x63, 0x20, 0x04, 0x38, 0x00, 0x01}))
	f.Add(packSetup(payloadOpenResponse, []byte{5, 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		g15 := &guard15{auth: types.AuthTypeMD5, password: []byte("x"), session: 7, active: true}
		for _, g := range []guard{newGuard20(types.CryptAlg_None), g20, g15} {
			if payload, ok := g.open(b); ok && g == guard(g15) {
				t.Fatalf("%x was let through as %x", b, payload)
			}
		}
		payload, ok := bare{}.open(b)
		if ok {
			a, _ := parseAnswer(payload)
			_, _, _ = unwrap(a, Request{NetFn: netFnApp, Command: 1}, []uint8{a.seq})
		}
		for _, kind := range []uint8{payloadOpenResponse, payloadRAKP2, payloadRAKP4} {
			parseSetup(b, kind)
		}
	})
}
