// Package snmptest is SNMP agents for tests: a double that a test can make lie, and snmpd of net-snmp with the same objects.
//
// It may import gosnmp and nothing of the project. Nothing but tests imports it.
package snmptest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gosnmp/gosnmp"
)

// Objects are those of an agent, by their names. Values are integers, and strings of octets.
type Objects map[string]any

// Agent is a double for versions 1 and 2c.
type Agent struct {
	conn      *net.UDPConn
	community string

	mu    sync.Mutex
	names []string // in order
	at    Objects
	asked int
	lie   func(answer *gosnmp.SnmpPacket) (sent bool)
}

// Start returns an agent that answers those who know the community, until the test ends.
func Start(t testing.TB, community string, objects Objects) *Agent {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{conn: conn, community: community, at: objects, names: sorted(objects)}
	var served sync.WaitGroup
	served.Go(a.serve)
	t.Cleanup(func() { conn.Close(); served.Wait() })
	return a
}

// Port is where it listens, on 127.0.0.1.
func (a *Agent) Port() string { return strconv.Itoa(a.conn.LocalAddr().(*net.UDPAddr).Port) }

// Asked is how many requests it has got.
func (a *Agent) Asked() int { a.mu.Lock(); defer a.mu.Unlock(); return a.asked }

// Lie has each answer changed by f before it is sent. None is sent if f returns false.
func (a *Agent) Lie(f func(answer *gosnmp.SnmpPacket) (sent bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lie = f
}

func (a *Agent) serve() {
	decoder := &gosnmp.GoSNMP{Version: gosnmp.Version2c}
	b := make([]byte, 1500)
	for {
		n, from, err := a.conn.ReadFromUDP(b)
		if err != nil {
			return
		}
		r, err := decoder.SnmpDecodePacket(b[:n])
		if err != nil || len(r.Variables) != 1 {
			continue
		}
		a.mu.Lock()
		a.asked++
		sent := r.Community == a.community
		if sent {
			a.answer(r)
			sent = a.lie == nil || a.lie(r)
		}
		a.mu.Unlock()
		if !sent {
			continue
		}
		if out, err := r.MarshalMsg(); err == nil {
			_, _ = a.conn.WriteToUDP(out, from)
		}
	}
}

// answer turns a request into its answer.
func (a *Agent) answer(r *gosnmp.SnmpPacket) {
	v := &r.Variables[0]
	name, missing := strings.TrimPrefix(v.Name, "."), gosnmp.NoSuchInstance
	if r.PDUType == gosnmp.GetNextRequest {
		missing = gosnmp.EndOfMibView
		next := slices.IndexFunc(a.names, func(other string) bool { return compare(other, name) > 0 })
		if name = ""; next >= 0 {
			name = a.names[next]
			v.Name = "." + name
		}
	}
	r.PDUType = gosnmp.GetResponse
	switch value := a.at[name].(type) {
	case int:
		v.Type, v.Value = gosnmp.Integer, value
	case string:
		v.Type, v.Value = gosnmp.OctetString, value
	default:
		if r.Version == gosnmp.Version1 {
			r.Error, r.ErrorIndex = gosnmp.NoSuchName, 1
			return
		}
		v.Type, v.Value = missing, nil
	}
}

func sorted(objects Objects) (names []string) {
	for name, value := range objects {
		switch value.(type) {
		case int, string:
		default:
			panic(fmt.Sprintf("%s is a %T", name, value))
		}
		names = append(names, name)
	}
	slices.SortFunc(names, compare)
	return names
}

// compare orders names by their numbers.
func compare(a, b string) int {
	numbers := func(name string) (list []int) {
		for part := range strings.SplitSeq(name, ".") {
			n, _ := strconv.Atoi(part)
			list = append(list, n)
		}
		return list
	}
	return slices.Compare(numbers(a), numbers(b))
}
