package classic

import (
	"strings"
	"testing"
)

// The seed's drivers, but for those of tests that reached hardware.
const seed = "agent_ilo agent_ipmitool agent_irmc agent_pyghmi agent_ssh agent_vbox agent_ucs iscsi_ilo iscsi_irmc pxe_ipmitool pxe_ipminative pxe_ssh pxe_vbox pxe_seamicro pxe_iboot " +
	"pxe_ilo pxe_drac pxe_snmp pxe_irmc pxe_amt pxe_msftocs pxe_ucs pxe_wol pxe_iscsi_cimc pxe_agent_cimc fake fake_agent fake_pxe"

func TestEveryDriverOfTheSeedIsKnown(t *testing.T) {
	for _, name := range strings.Fields(seed) {
		b, ok := Driver(name)
		if !ok || b.Driver == "" || strings.Contains(b.Driver, "_") {
			t.Errorf("%s becomes %+v, %t", name, b, ok)
		}
		if strings.HasPrefix(name, "pxe_") && !strings.HasSuffix(b.Interfaces["boot"], "pxe") {
			t.Errorf("%s boots by %q", name, b.Interfaces["boot"])
		}
	}
	for _, name := range []string{"", "ipmi", "redfish", "pxe_oneview", "fake_ipmitool"} {
		if b, ok := Driver(name); ok {
			t.Errorf("%q is known, as %+v", name, b)
		}
	}
	for name, b := range drivers {
		if drivers[b.Driver].Driver != "" {
			t.Errorf("%s becomes %s, which is an old name itself", name, b.Driver)
		}
	}
}
