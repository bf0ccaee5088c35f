package snmpclient

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmptest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

const (
	sizes  = "1.3.6.1.4.1.232.3.2.5.1.1.45"
	name   = "1.3.6.1.4.1.232.2.2.4.2.0"
	secret = "s3cret-community"
)

var disks = snmptest.Objects{sizes + ".0.1": 286102, sizes + ".0.2": 953869, sizes + ".0.10": 100,
	"1.3.6.1.4.1.232.3.2.5.1.1.46.0.1": 5, name: "ProLiant"}

// impatient has two short tries.
var impatient = ReaderOptions{AnswerTimeout: 50 * time.Millisecond, Tries: 2}

func newReader(t *testing.T, o ReaderOptions) *Reader {
	o.Networks, o.Pace = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, 1000
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = 2 * time.Second
	}
	r := NewReader(o)
	t.Cleanup(func() { _ = r.Close(context.WithoutCancel(t.Context())) })
	return r
}

func targetOf(port, community string, version gosnmp.SnmpVersion) Target {
	p, _ := strconv.Atoi(port)
	return Target{Host: "127.0.0.1", Port: uint16(p), Version: version, Read: community,
		Names: Names{Read: "x_community", Fields: bmc.Fields{Address: "x_address and x_community", User: "x_user", Password: "x_key"}}}
}

func column(t *testing.T, r *Reader, target Target, of string) (found string, err error) {
	n := &node.Document{UUID: "u", Name: "web1"}
	err = r.Read(t.Context(), n, "read the disks", target, func(ctx context.Context, s *Session) error {
		cells, err := s.Column(ctx, of)
		for _, c := range cells {
			found += fmt.Sprint(c.Index, "=", c.Value.Value, " ")
		}
		return err
	})
	return strings.TrimSpace(found), err
}

func TestColumn(t *testing.T) {
	a := snmptest.Start(t, secret, disks)
	for _, version := range []gosnmp.SnmpVersion{gosnmp.Version1, gosnmp.Version2c} {
		r, target := newReader(t, ReaderOptions{}), targetOf(a.Port(), secret, version)
		if got, err := column(t, r, target, sizes); err != nil || got != "0.1=286102 0.2=953869 0.10=100" {
			t.Errorf("version %s: %q, %v", version, got, err)
		}
		for _, missing := range []string{"1.3.6.1.4.1.232.5.2.4.1.1.7", "1.3.6.1.4.1.9", sizes[:len(sizes)-1]} {
			if got, err := column(t, r, target, missing); err != nil || got != "" {
				t.Errorf("version %s, a table that is not there: %q, %v", version, got, err)
			}
		}
		err := r.Read(t.Context(), &node.Document{UUID: "u"}, "read the model", target, func(ctx context.Context, s *Session) error {
			if text, err := s.Text(ctx, name); err != nil || text != "ProLiant" {
				t.Errorf("version %s: %q, %v", version, text, err)
			}
			if _, err := s.Text(ctx, name+".9"); !errors.Is(err, ErrAbsent) {
				t.Errorf("version %s, an object that is not there: %v", version, err)
			}
			_, err := s.Text(ctx, sizes+".0.1")
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "something that is no text (type Integer)") {
			t.Errorf("version %s, a number for a text: %v", version, err)
		}
	}
}

// A community that the agent does not know is not answered. The error says which fields are to be looked at, and none of their secrets.
func TestAnotherCommunity(t *testing.T) {
	a := snmptest.Start(t, "public", disks)
	_, err := column(t, newReader(t, impatient), targetOf(a.Port(), secret, gosnmp.Version2c), sizes)
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "check x_address and x_community") ||
		strings.Contains(err.Error(), secret) ||
		!strings.Contains(err.Error(), "node web1 (u): read the disks by SNMP: SNMP agent 127.0.0.1:"+a.Port()) {
		t.Error(err)
	}
	if a.Asked() != 2 {
		t.Errorf("it was asked %d times", a.Asked())
	}
}

// Whatever an agent answers, a walk through its table has an end.
func TestAgentsThatLie(t *testing.T) {
	row := 0
	for what, lie := range map[string]struct {
		f    func(*gosnmp.SnmpPacket) bool
		says string
		most int // requests
	}{
		"an endless table": {func(p *gosnmp.SnmpPacket) bool {
			row++
			p.Variables = []gosnmp.SnmpPDU{{Name: fmt.Sprintf(".%s.%d", sizes, row), Type: gosnmp.Integer, Value: 1}}
			return true
		}, "more than 1000 rows", mostRows + 1},
		"rows that are huge": {func(p *gosnmp.SnmpPacket) bool {
			row++
			p.Variables = []gosnmp.SnmpPDU{{Name: fmt.Sprintf(".%s.%d", sizes, row), Type: gosnmp.OctetString, Value: strings.Repeat("x", 30000)}}
			return true
		}, "more than 262144 octets", 10},
		"a table in a circle": {func(p *gosnmp.SnmpPacket) bool {
			p.Variables = []gosnmp.SnmpPDU{{Name: "." + sizes + ".1", Type: gosnmp.Integer, Value: 1}}
			return true
		}, "as the object after", 2},
		"another object": {func(p *gosnmp.SnmpPacket) bool {
			p.Variables = []gosnmp.SnmpPDU{{Name: ".1.3.6.1.2.1.1.1.0", Type: gosnmp.Integer, Value: 1}}
			return true
		}, "as the object after", 1},
		"several objects": {func(p *gosnmp.SnmpPacket) bool {
			p.Variables = append(p.Variables, p.Variables[0])
			return true
		}, "2 objects to a request for one", 1},
		"no object": {func(p *gosnmp.SnmpPacket) bool { p.Variables = nil; return true }, "0 objects to a request for one", 1},
		"an error":  {func(p *gosnmp.SnmpPacket) bool { p.Error, p.ErrorIndex = gosnmp.GenErr, 1; return true }, "GenErr", 1},
		"no right to it": {func(p *gosnmp.SnmpPacket) bool {
			p.Error, p.ErrorIndex = gosnmp.AuthorizationError, 1
			return true
		}, "check x_community or the rights of x_user", 1},
	} {
		t.Run(what, func(t *testing.T) {
			row = 0
			a := snmptest.Start(t, secret, disks)
			a.Lie(lie.f)
			_, err := column(t, newReader(t, ReaderOptions{}), targetOf(a.Port(), secret, gosnmp.Version2c), sizes)
			if err == nil || !strings.Contains(err.Error(), lie.says) || strings.Contains(err.Error(), secret) {
				t.Errorf("%v, want %q", err, lie.says)
			}
			if a.Asked() > lie.most {
				t.Errorf("it was asked %d times", a.Asked())
			}
		})
	}
}

// One that is slow at each row is given up, and one that answers a part of the rows tells no part of a table.
func TestAgentsThatAreSlow(t *testing.T) {
	a := snmptest.Start(t, secret, disks)
	a.Lie(func(*gosnmp.SnmpPacket) bool { time.Sleep(150 * time.Millisecond); return true })
	began := time.Now()
	_, err := column(t, newReader(t, ReaderOptions{Within: 200 * time.Millisecond}), targetOf(a.Port(), secret, gosnmp.Version2c), sizes)
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "has not come within 200ms") ||
		time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	answers := 0
	a.Lie(func(*gosnmp.SnmpPacket) bool { answers++; return answers < 3 })
	_, err = column(t, newReader(t, impatient), targetOf(a.Port(), secret, gosnmp.Version2c), sizes)
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("half a table: %v", err)
	}
}
