package snmp

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// pdu is a PDU with outlet 3, for versions 1 and 2c. Its objects are those of the test's own table.
type pdu struct {
	conn    *net.UDPConn
	spoiler drivertest.Datagrams // before all that it answers

	mu          sync.Mutex
	outlet      outlet
	on          bool
	other       outlet // the outlet beside it, if there is one
	otherOn     bool
	sets, gets  int
	lose, hang  bool
	dropGets    int // how many reads it does not answer
	answerError gosnmp.SNMPError
	stays       int // for how many reads an outlet that is told to go off stays on
	whileRead   func()
	orders      []string
}

// outlet is what a type of PDU does, as MIBs and Ironic's documentation have it: complete object names for outlet 3.
type outlet struct {
	state         string
	isOn, isOff   int
	on, off       string
	setOn, setOff int
	sysObjectID   string
}

const prefix = "1.3.6.1.4.1."

// outlets are the types of PDUs, written down apart from the driver's table.
var outlets = map[string]outlet{
	"apc":                  {state: "318.1.1.4.4.2.1.3.3", isOn: 1, isOff: 2, on: "318.1.1.4.4.2.1.3.3", setOn: 1, off: "318.1.1.4.4.2.1.3.3", setOff: 2},
	"apc_masterswitch":     {state: "318.1.1.4.4.2.1.3.3", isOn: 1, isOff: 2, on: "318.1.1.4.4.2.1.3.3", setOn: 1, off: "318.1.1.4.4.2.1.3.3", setOff: 2, sysObjectID: "318.1.1.4.5"},
	"apc_masterswitchplus": {state: "318.1.1.6.5.1.1.5.3", isOn: 1, isOff: 3, on: "318.1.1.6.5.1.1.5.3", setOn: 1, off: "318.1.1.6.5.1.1.5.3", setOff: 3, sysObjectID: "318.1.1.6"},
	"apc_rackpdu":          {state: "318.1.1.12.3.3.1.1.4.3", isOn: 1, isOff: 2, on: "318.1.1.12.3.3.1.1.4.3", setOn: 1, off: "318.1.1.12.3.3.1.1.4.3", setOff: 2, sysObjectID: "318.1.3.4.5"},
	"aten":                 {state: "21317.1.3.2.2.2.2.3.0", isOn: 2, isOff: 1, on: "21317.1.3.2.2.2.2.3.0", setOn: 2, off: "21317.1.3.2.2.2.2.3.0", setOff: 1, sysObjectID: "21317.1.3.2"},
	"baytech_mrp27":        {state: "4779.1.3.5.3.1.3.1.3", isOn: 1, isOff: 0, on: "4779.1.3.5.3.1.3.1.3", setOn: 1, off: "4779.1.3.5.3.1.3.1.3", setOff: 0},
	"cyberpower":           {state: "3808.1.1.3.3.3.1.1.4.3", isOn: 1, isOff: 2, on: "3808.1.1.3.3.3.1.1.4.3", setOn: 1, off: "3808.1.1.3.3.3.1.1.4.3", setOff: 2, sysObjectID: "3808.1.1.3"},
	"eatonpower":           {state: "534.6.6.7.6.6.1.2.0.3", isOn: 1, isOff: 0, on: "534.6.6.7.6.6.1.4.0.3", setOn: 0, off: "534.6.6.7.6.6.1.3.0.3", setOff: 0, sysObjectID: "534.6.6.7"},
	"raritan_pdu2":         {state: "13742.6.4.1.2.1.3.1.3", isOn: 7, isOff: 8, on: "13742.6.4.1.2.1.2.1.3", setOn: 1, off: "13742.6.4.1.2.1.2.1.3", setOff: 0},
	"servertech_sentry3":   {state: "1718.3.2.3.1.5.1.1.3", isOn: 1, isOff: 0, on: "1718.3.2.3.1.11.1.1.3", setOn: 1, off: "1718.3.2.3.1.11.1.1.3", setOff: 2},
	"servertech_sentry4":   {state: "1718.4.1.8.5.1.1.1.1.3", isOn: 11, isOff: 10, on: "1718.4.1.8.5.1.2.1.1.3", setOn: 1, off: "1718.4.1.8.5.1.2.1.1.3", setOff: 2},
	"teltronix":            {state: "23620.1.2.2.1.4.3", isOn: 2, isOff: 1, on: "23620.1.2.2.1.4.3", setOn: 2, off: "23620.1.2.2.1.4.3", setOff: 1, sysObjectID: "23620.1"},
	"vertivgeist_pdu":      {state: "21239.5.2.3.5.1.4.3", isOn: 1, isOff: 2, on: "21239.5.2.3.5.1.6.3", setOn: 2, off: "21239.5.2.3.5.1.6.3", setOff: 4},
}

// beside is the outlet 4 of such a PDU.
func (o outlet) beside() outlet {
	for _, object := range []*string{&o.state, &o.on, &o.off} {
		*object = strings.TrimSuffix(*object, ".3") + ".4"
	}
	return o
}

// ironicsEaton is Ironic's own layout of an Eaton, with one index.
var ironicsEaton = outlet{state: "534.6.6.7.6.6.1.2.3", isOn: 1, isOff: 0, on: "534.6.6.7.6.6.1.3.3", setOn: 0, off: "534.6.6.7.6.6.1.4.3", setOff: 0}

func newPDU(t *testing.T, o outlet) *pdu {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p := &pdu{conn: conn, outlet: o}
	var served sync.WaitGroup
	served.Go(p.serve)
	t.Cleanup(func() { conn.Close(); served.Wait(); p.spoiler.Wait() })
	return p
}

func (p *pdu) set(do func()) { p.mu.Lock(); defer p.mu.Unlock(); do() }

// seen is what the PDU is and was asked.
type seen struct {
	on                bool
	gets, sets, stays int
	orders            []string
}

func (p *pdu) seen() (s seen) {
	p.set(func() { s = seen{p.on, p.gets, p.sets, p.stays, slices.Clone(p.orders)} })
	return s
}

func (p *pdu) serve() {
	decoder := &gosnmp.GoSNMP{Version: gosnmp.Version2c}
	b := make([]byte, 1500)
	for {
		n, from, err := p.conn.ReadFromUDP(b)
		if err != nil {
			return
		}
		request, err := decoder.SnmpDecodePacket(b[:n])
		if err != nil || !p.spoiler.Up() {
			continue
		}
		p.mu.Lock()
		answered := p.answer(request)
		p.mu.Unlock()
		if !answered {
			continue
		}
		request.PDUType = gosnmp.GetResponse
		if out, err := request.MarshalMsg(); err == nil {
			packets, late := p.spoiler.Down(out)
			time.AfterFunc(late, func() {
				for _, packet := range packets {
					_, _ = p.conn.WriteToUDP(packet, from)
				}
			})
		}
	}
}

// answer turns a request into its answer; false: there is none.
func (p *pdu) answer(r *gosnmp.SnmpPacket) bool {
	if p.hang || len(r.Variables) != 1 {
		return false
	}
	object := strings.TrimPrefix(strings.TrimPrefix(r.Variables[0].Name, "."), prefix)
	if r.PDUType == gosnmp.GetRequest {
		if p.gets++; p.dropGets > 0 {
			p.dropGets--
			return false
		}
		if do := p.whileRead; do != nil {
			p.whileRead = nil
			do()
		}
		return p.get(r, object)
	}
	if !strings.Contains("public private pr1vate", r.Community) {
		return false
	}
	if p.answerError != gosnmp.NoError {
		r.Error, r.ErrorIndex = p.answerError, 1
		return true
	}
	value, _ := r.Variables[0].Value.(int)
	p.orders = append(p.orders, fmt.Sprintf("%s=%d by %s", object, value, r.Community))
	p.sets++
	switch {
	case object == p.outlet.on && value == p.outlet.setOn:
		p.on = true
	case object == p.outlet.off && value == p.outlet.setOff:
		p.on = false
	case object == p.other.on && value == p.other.setOn:
		p.otherOn = true
	case object == p.other.off && value == p.other.setOff:
		p.otherOn = false
	}
	if p.lose {
		p.lose = false
		return false
	}
	return true
}

func (p *pdu) get(r *gosnmp.SnmpPacket, object string) bool {
	v := &r.Variables[0]
	switch {
	case "."+strings.TrimPrefix(v.Name, ".") == "."+sysObjectID && p.outlet.sysObjectID != "":
		v.Type, v.Value = gosnmp.ObjectIdentifier, "."+prefix+p.outlet.sysObjectID
	case object == p.outlet.state:
		is := p.outlet.isOff
		if p.on || p.stays > 0 {
			is = p.outlet.isOn
		}
		if !p.on && p.stays > 0 {
			p.stays--
		}
		v.Type, v.Value = gosnmp.Integer, is
	case object == p.other.state:
		v.Type, v.Value = gosnmp.Integer, map[bool]int{true: p.other.isOn, false: p.other.isOff}[p.otherOn]
	case r.Version == gosnmp.Version1:
		r.Error, r.ErrorIndex = gosnmp.NoSuchName, 1
	default:
		v.Type, v.Value = gosnmp.NoSuchInstance, nil
	}
	return true
}
