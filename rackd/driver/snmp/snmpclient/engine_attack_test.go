package snmpclient

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// messageID is that of a datagram of version 3.
func messageID(b []byte) (id uint32) {
	at := func(i int) int { // behind the tag and the length at i
		if i+1 < len(b) && b[i+1]&0x80 != 0 {
			return i + 2 + int(b[i+1]&0x7f)
		}
		return i + 2
	}
	i := at(0) + 3 // the version
	i = at(i)      // the header
	for k := range int(b[i+1]) {
		id = id<<8 | uint32(b[i+2+k])
	}
	return id
}

// engine answers each datagram with those that answer returns.
func engine(t *testing.T, answer func(count int, request []byte) [][]byte) (target Target, asked *atomic.Int64) {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	var served sync.WaitGroup
	served.Go(func() {
		b := make([]byte, 65536)
		for {
			n, from, err := conn.ReadFromUDP(b)
			if err != nil {
				return
			}
			for _, out := range answer(int(asked.Add(1)), b[:n]) {
				_, _ = conn.WriteToUDP(out, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); served.Wait() })
	target = Target{Host: "127.0.0.1", Port: uint16(conn.LocalAddr().(*net.UDPAddr).Port), Version: gosnmp.Version3,
		User: "user", Auth: gosnmp.SHA,
		Priv: gosnmp.AES, AuthKey: "s3cret-auth-key", PrivKey: "s3cret-priv-key",
		Names: Names{Fields: bmc.Fields{Address: "x_address", User: "x_user", Password: "x_key"}}}
	return target, asked
}

// unsigned is a datagram that nothing protects.
func unsigned(t *testing.T, request []byte, kind gosnmp.PDUType, engine string, v gosnmp.SnmpPDU) []byte {
	t.Helper()
	p := &gosnmp.SnmpPacket{Version: gosnmp.Version3, SecurityModel: gosnmp.UserSecurityModel, MsgID: messageID(request), MsgMaxSize: 65507,
		SecurityParameters: &gosnmp.UsmSecurityParameters{AuthoritativeEngineID: engine, AuthoritativeEngineBoots: 1, AuthoritativeEngineTime: 1,
			AuthenticationProtocol: gosnmp.NoAuth, PrivacyProtocol: gosnmp.NoPriv}, ContextEngineID: engine,
		PDUType: kind, RequestID: 7, Variables: []gosnmp.SnmpPDU{v}}
	out, err := p.MarshalMsg()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func reportOf(number int) gosnmp.SnmpPDU {
	return gosnmp.SnmpPDU{Name: fmt.Sprintf(".1.3.6.1.6.3.15.1.1.%d.0", number), Type: gosnmp.Counter32, Value: uint32(1)}
}

// Whatever engine an agent says that it is, and whatever it reports, a read ends soon, and keys that it refuses are tried once.
func TestAttackEnginesThatLie(t *testing.T) {
	const first = "\x80\x00\x1f\x88\x04first"
	aSize := gosnmp.SnmpPDU{Name: "." + sizes + ".1", Type: gosnmp.Integer, Value: 5}
	discovery := func(t *testing.T, request []byte) []byte {
		return unsigned(t, request, gosnmp.Report, first, reportOf(4))
	}
	for what, c := range map[string]struct {
		answer func(t *testing.T, count int, request []byte) [][]byte
		denied bool
		most   int64
	}{
		"another engine each time": {func(t *testing.T, count int, request []byte) [][]byte {
			return [][]byte{unsigned(t, request, gosnmp.Report, fmt.Sprintf("%s%d", first, count), reportOf(4))}
		}, false, 12},
		"never in its window": {func(t *testing.T, count int, request []byte) [][]byte {
			return [][]byte{unsigned(t, request, gosnmp.Report, first, reportOf(2))}
		}, false, 12},
		"a huge engine": {func(t *testing.T, count int, request []byte) [][]byte {
			return [][]byte{unsigned(t, request, gosnmp.Report, strings.Repeat("e", 30000), reportOf(4))}
		}, false, 12},
		"wrong digest": {func(t *testing.T, count int, request []byte) [][]byte {
			if count == 1 {
				return [][]byte{discovery(t, request)}
			}
			return [][]byte{unsigned(t, request, gosnmp.Report, first, reportOf(5))}
		}, true, 2},
		"unknown user": {func(t *testing.T, count int, request []byte) [][]byte {
			if count == 1 {
				return [][]byte{discovery(t, request)}
			}
			return [][]byte{unsigned(t, request, gosnmp.Report, first, reportOf(3))}
		}, true, 2},
		"values that nothing protects": {func(t *testing.T, count int, request []byte) [][]byte {
			if count == 1 {
				return [][]byte{discovery(t, request)}
			}
			return [][]byte{unsigned(t, request, gosnmp.GetResponse, first, aSize)}
		}, false, 12},
		"values at once": {func(t *testing.T, count int, request []byte) [][]byte {
			return [][]byte{unsigned(t, request, gosnmp.GetResponse, first, aSize)}
		}, false, 12},
		"a flood": {func(t *testing.T, count int, request []byte) (list [][]byte) {
			if count == 1 {
				return [][]byte{discovery(t, request)}
			}
			for range 2000 {
				list = append(list, unsigned(t, request, gosnmp.GetResponse, first, aSize))
			}
			return list
		}, false, 12},
		"nothing of sense": {func(t *testing.T, count int, request []byte) [][]byte {
			return [][]byte{{}, {0x30}, []byte(strings.Repeat("\x30\x84\xff\xff\xff\xff", 100)), request[:len(request)/2], request}
		}, false, 12},
	} {
		t.Run(what, func(t *testing.T) {
			target, asked := engine(t, func(count int, request []byte) [][]byte { return c.answer(t, count, request) })
			r := newReader(t, ReaderOptions{AnswerTimeout: 100 * time.Millisecond, Tries: 3})
			began := time.Now()
			got, err := column(t, r, target, sizes)
			if err == nil || strings.Contains(err.Error(), "s3cret") || errors.Is(err, driver.ErrDenied) != c.denied ||
				time.Since(began) > 5*time.Second {
				t.Errorf("%q, %v after %s", got, err, time.Since(began))
			}
			if asked.Load() > c.most {
				t.Errorf("%d datagrams", asked.Load())
			}
			before := asked.Load()
			if _, err = column(t, r, target, sizes); c.denied && asked.Load() != before {
				t.Errorf("keys that were refused are tried once more: %v", err)
			}
		})
	}
}

// Whatever comes as a datagram, the session's own look at it ends and takes little.
func FuzzAttackDatagram(f *testing.F) {
	c := &gosnmp.GoSNMP{Version: gosnmp.Version3, SecurityParameters: &gosnmp.UsmSecurityParameters{AuthoritativeEngineID: "x"}}
	p := &gosnmp.SnmpPacket{Version: gosnmp.Version2c, Community: "public", PDUType: gosnmp.GetResponse,
		Variables: []gosnmp.SnmpPDU{{Name: ".1.3.6.1.2.1.1.1.0", Type: gosnmp.OctetString, Value: "x"}}}
	out, err := p.MarshalMsg()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(out)
	f.Add([]byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		numberless(b)
		_ = unauthenticReport(c, b, 0)
	})
}
