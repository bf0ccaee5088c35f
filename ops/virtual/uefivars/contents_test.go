package uefivars

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func httpOption(uri string) LoadOption {
	card := net.HardwareAddr{0x52, 0x54, 0, 0x99, 0, 1}
	return LoadOption{Attributes: Active, Description: "HTTP", Path: DevicePath{PCIRoot(0), PCI(3, 0), MAC(card), IPv4(), URI(uri)}}
}

func TestBootOrder(t *testing.T) {
	s := newStore(t)
	first, err := s.AddBootOption(httpOption("http://10.0.0.1/a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.AddBootOption(httpOption("http://10.0.0.1/b"))
	if err != nil || first != 0 || second != 1 {
		t.Fatalf("numbers %d and %d, %v", first, second, err)
	}
	if again, err := s.AddBootOption(httpOption("http://10.0.0.1/a")); again != first || err != nil {
		t.Errorf("the same option again: %d, %v", again, err)
	}
	options, err := s.BootOptions()
	if err != nil || options[1].Path.URI() != "http://10.0.0.1/b" {
		t.Errorf("options %v, %v", options, err)
	}
	if got, want := options[0].Path.String(), "PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400990001,0x1)/IPv4(0.0.0.0)/Uri(http://10.0.0.1/a)"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	for what, order := range map[string][]uint16{"unknown": {0, 9}, "twice": {0, 0}} {
		if err := s.SetBootOrder(order); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if err := s.SetBootOrder([]uint16{0, 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.BootFirst(1); err != nil {
		t.Fatal(err)
	}
	if order, err := s.BootOrder(); err != nil || !slices.Equal(order, []uint16{1, 0}) {
		t.Errorf("order %v, %v", order, err)
	}
	if err := s.SetBootNext(9); !errors.Is(err, ErrNoOption) {
		t.Errorf("an unknown option next: %v", err)
	}
	if err := s.SetBootNext(1); err != nil {
		t.Fatal(err)
	}
	if next, ok, err := s.BootNext(); next != 1 || !ok || err != nil {
		t.Errorf("next %d, %t, %v", next, ok, err)
	}
	if err := s.RemoveBootOption(1); err != nil {
		t.Fatal(err)
	}
	order, err := s.BootOrder()
	if _, next, _ := s.BootNext(); next || err != nil || !slices.Equal(order, []uint16{0}) {
		t.Errorf("after the removal: order %v, next %t, %v", order, next, err)
	}
	if err := s.RemoveBootOption(0); err != nil {
		t.Fatal(err)
	}
	if left := s.List(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLoadOptionsCutOff(t *testing.T) {
	raw, err := httpOption("http://10.0.0.1/a").Encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range raw {
		if o, err := ParseLoadOption(raw[:n]); err == nil {
			t.Errorf("%d of %d bytes are read as %v", n, len(raw), o)
		}
	}
}

func TestISCSI(t *testing.T) {
	s := debian(t, "OVMF_VARS_4M.ms.fd")
	if initiator, attempts, err := s.ISCSI(); initiator != "" || len(attempts) != 0 || err != nil {
		t.Errorf("at first: %q, %v, %v", initiator, attempts, err)
	}
	card := net.HardwareAddr{0x52, 0x54, 0, 0x99, 0, 0xab}
	want := []Attempt{
		{
			MAC: card, Local: netip.MustParsePrefix("10.1.0.7/20"), Gateway: netip.MustParseAddr("10.1.0.1"),
			Target: netip.MustParseAddrPort("10.2.0.9:3261"), TargetName: "iqn.2026-11.org.example:one", LUN: 258, ConnectTimeout: 2 * time.Second, Retries: 3,
			CHAP: &CHAP{Name: "me", Secret: "0123456789ab", ReverseName: "you", ReverseSecret: "ba9876543210"},
		},
		{MAC: card, Target: netip.MustParseAddrPort("[fd00::9]:3260"), TargetName: "iqn.2026-11.org.example:two", ConnectTimeout: time.Second},
	}
	if err := s.SetISCSI("iqn.2026-11.org.example:me", want); err != nil {
		t.Fatal(err)
	}
	again, err := Parse(s.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	initiator, got, err := again.ISCSI()
	if err != nil || initiator != "iqn.2026-11.org.example:me" || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %+v, %v", initiator, got, err)
	}
	v, _ := again.Get(ISCSIInitiatorVendor, "Attempt 1")
	if len(v.Data) != 1049 || string(v.Data[38:55]) != "52:54:00:99:00:AB" || v.Data[476] != 0x52&0x3f {
		t.Errorf("attempt 1 of %d bytes, MAC %q, ISID %x", len(v.Data), v.Data[38:55], v.Data[476:482])
	}
	// The second is in use no more, and none of the first's secrets stay.
	if err := s.SetISCSI("iqn.2026-11.org.example:me", want[1:]); err != nil {
		t.Fatal(err)
	}
	if v, _ := s.Get(ISCSIInitiatorVendor, "Attempt 1"); bytes.Contains(v.Data, []byte("0123456789ab")) {
		t.Error("a secret stays after its attempt")
	}
	if _, got, err := s.ISCSI(); err != nil || !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.SetISCSI("", nil); err != nil {
		t.Fatal(err)
	}
	if _, got, err := s.ISCSI(); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for what, change := range map[string]func(*Attempt){
		"card":          func(a *Attempt) { a.MAC = nil },
		"portal":        func(a *Attempt) { a.Target = netip.AddrPort{} },
		"target":        func(a *Attempt) { a.TargetName = "" },
		"long target":   func(a *Attempt) { a.TargetName = string(bytes.Repeat([]byte("x"), 224)) },
		"family":        func(a *Attempt) { a.Local = netip.MustParsePrefix("fd00::1/64") },
		"gateway":       func(a *Attempt) { a.Local = netip.Prefix{} },
		"timeout":       func(a *Attempt) { a.ConnectTimeout = time.Minute },
		"short secret":  func(a *Attempt) { a.CHAP = &CHAP{Name: "me", Secret: "short"} },
		"long secret":   func(a *Attempt) { a.CHAP = &CHAP{Name: "me", Secret: "0123456789abcdefg"} },
		"nameless CHAP": func(a *Attempt) { a.CHAP = &CHAP{Secret: "0123456789ab"} },
	} {
		bad := want[0]
		change(&bad)
		if err := s.SetISCSI("iqn.2026-11.org.example:me", []Attempt{bad}); err == nil {
			t.Errorf("bad %s: accepted", what)
		}
	}
}

// Another version of edk2 may have attempts of another size.
func TestISCSIOfAnotherSize(t *testing.T) {
	for what, change := range map[string]func(v *Variable){
		"size": func(v *Variable) { v.Data = append(v.Data, 0) },
		"name": func(v *Variable) { v.Data[attemptName+8] = 'x' },
	} {
		s := debian(t, "OVMF_VARS_4M.ms.fd")
		v, ok := s.Get(ISCSIInitiatorVendor, "Attempt 8")
		if !ok {
			t.Fatal("no Attempt 8")
		}
		change(&v)
		if err := s.Set(v); err != nil {
			t.Fatal(err)
		}
		before := s.Bytes()
		if err := s.SetISCSI("iqn.2026-11.org.example:me", nil); !errors.Is(err, ErrLayout) || !bytes.Equal(before, s.Bytes()) {
			t.Errorf("another %s: %v, want ErrLayout and no change", what, err)
		}
	}
}

func certificate(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestKeys(t *testing.T) {
	s := newStore(t)
	if err := s.SetSecureBoot(true); !errors.Is(err, ErrNoPlatformKey) {
		t.Errorf("secure boot without a key: %v", err)
	}
	want := Keys{Owner: vendor, PK: certificate(t, "pk"), KEK: [][]byte{certificate(t, "kek")}, DB: [][]byte{certificate(t, "a"), certificate(t, "longer")}}
	now := time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC)
	if err := s.SetKeys(want, now); err != nil {
		t.Fatal(err)
	}
	got, err := s.Keys()
	if err != nil || !reflect.DeepEqual(got, want) || !s.SecureBoot() {
		t.Errorf("keys differ, secure boot %t, %v", s.SecureBoot(), err)
	}
	if v, _ := s.Get(GlobalVendor, "PK"); !v.Time.Equal(now) || v.Attributes != 0x27 {
		t.Errorf("PK of %s, attributes %#x", v.Time, v.Attributes)
	}
	if err := s.SetSecureBoot(false); err != nil || s.SecureBoot() {
		t.Errorf("secure boot is on (%v)", err)
	}
	if err := s.SetSecureBoot(true); err != nil || !s.SecureBoot() {
		t.Errorf("secure boot is off (%v)", err)
	}
	bad := want
	bad.DB = [][]byte{[]byte("PEM")}
	if err := s.SetKeys(bad, now); err == nil {
		t.Error("a certificate that is none was accepted")
	}
	if err := s.ClearKeys(); err != nil || s.SecureBoot() {
		t.Errorf("after ClearKeys: %v, secure boot %t", err, s.SecureBoot())
	}
}

// Keys are copied as they are, and certificates are added to them. The switch of secure
// boot stays as it was.
func TestCopiedKeys(t *testing.T) {
	factory, s := newStore(t), newStore(t)
	if err := s.CopyKeys(factory); !errors.Is(err, ErrNoPlatformKey) {
		t.Errorf("copying from a store without keys: %v", err)
	}
	first, second := certificate(t, "first"), certificate(t, "second")
	at := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	owner := uuid.New()
	if err := factory.SetKeys(Keys{Owner: owner, PK: first, KEK: [][]byte{first}, DB: [][]byte{first}}, at); err != nil {
		t.Fatal(err)
	}
	if err := s.SetKeys(Keys{Owner: uuid.New(), PK: second, DB: [][]byte{second}}, at); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SetSecureBoot(false), s.CopyKeys(factory)); err != nil {
		t.Fatal(err)
	}
	if keys, err := s.Keys(); err != nil || keys.Owner != owner || !bytes.Equal(keys.PK, first) || len(keys.KEK) != 1 || len(keys.DB) != 1 {
		t.Errorf("copied: %+v, %v", keys, err)
	}
	for range 2 {
		for _, database := range []string{"db", "dbx", "PK"} {
			if err := s.AddCertificate(database, owner, second, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	for database, want := range map[string][][]byte{"db": {first, second}, "dbx": {second}, "PK": {second}, "KEK": {first}} {
		if got, err := s.Certificates(database); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s has %d certificates, %v", database, len(got), err)
		}
	}
	if s.SecureBoot() {
		t.Error("a certificate turned secure boot on")
	}
	if err := s.ClearPlatformKey(); err != nil {
		t.Fatal(err)
	}
	if err := s.AddCertificate("PK", owner, first, at); err != nil || s.SecureBoot() {
		t.Errorf("a platform key for a store in setup mode: secure boot %t, %v", s.SecureBoot(), err)
	}
	for what, err := range map[string]error{"database": s.AddCertificate("MokList", owner, first, at), "certificate": s.AddCertificate("db", owner, first[1:], at)} {
		if err == nil {
			t.Errorf("bad %s: accepted", what)
		}
	}
	if _, err := s.Certificates("MokList"); err == nil {
		t.Error("certificates of a database that is none")
	}
}

func TestSATAPath(t *testing.T) {
	path := DevicePath{PCIRoot(0), PCI(0x1f, 2), SATA(3)}
	if got, want := path.String(), "PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x3,0xFFFF,0x0)"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	back, rest, err := parsePath(path.encode())
	if err != nil || len(rest) != 0 || !back.Equal(path) {
		t.Errorf("read back: %s, %d bytes more, %v", back, len(rest), err)
	}
}
