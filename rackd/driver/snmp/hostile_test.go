package snmp

import (
	"net"
	"testing"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver"
)

// An answer counts if it has the request's number. A sender who does not see the requests cannot guess it.
func TestAnAnswerWithoutTheRequestsNumberIsNone(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		decoder := &gosnmp.GoSNMP{Version: gosnmp.Version2c}
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFromUDP(b)
			if err != nil {
				return
			}
			r, err := decoder.SnmpDecodePacket(b[:n])
			if err != nil {
				continue
			}
			say := func(id uint32, state int) {
				lie := *r
				lie.PDUType, lie.RequestID = gosnmp.GetResponse, id
				lie.Variables = []gosnmp.SnmpPDU{{Name: r.Variables[0].Name, Type: gosnmp.Integer, Value: state}}
				if out, err := lie.MarshalMsg(); err == nil {
					_, _ = conn.WriteToUDP(out, from)
				}
			}
			say(0, 2)           // off, by a forger
			say(r.RequestID, 1) // on, by the PDU
		}
	}()
	n := nodeAt(conn.LocalAddr().String(), "apc_rackpdu", nil)
	if state, err := quick(t, Options{}).PowerState(t.Context(), n); err != nil || state != driver.PowerOn {
		t.Errorf("%q, %v: the forger is believed", state, err)
	}
}
