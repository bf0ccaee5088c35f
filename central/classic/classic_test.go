package classic

import (
	"strings"
	"testing"
)

// The seed's drivers.
const seed = "agent_ilo agent_ipmitool agent_irmc agent_pyghmi agent_ssh agent_vbox agent_ucs iscsi_ilo iscsi_irmc pxe_ipmitool pxe_ipminative pxe_ssh pxe_vbox pxe_seamicro pxe_iboot " +
	"pxe_ilo pxe_drac pxe_snmp pxe_irmc pxe_amt pxe_msftocs pxe_ucs pxe_wol pxe_iscsi_cimc pxe_agent_cimc fake fake_agent fake_inspector fake_ipmitool fake_ipminative fake_ssh fake_pxe " +
	"fake_seamicro fake_iboot fake_ilo fake_drac fake_snmp fake_irmc fake_vbox fake_amt fake_msftocs fake_ucs fake_cimc fake_wol"

func TestEveryDriverOfTheSeedIsKnown(t *testing.T) {
	for _, name := range strings.Fields(seed) {
		b, ok := Driver(name)
		if !ok || b.Driver == "" || strings.Contains(b.Driver, "_") {
			t.Errorf("%s becomes %+v, %t", name, b, ok)
		}
		if strings.HasPrefix(name, "pxe_") && !strings.HasSuffix(b.Interfaces["boot"], "pxe") {
			t.Errorf("%s boots by %q", name, b.Interfaces["boot"])
		}
		if strings.HasPrefix(name, "fake") && b.Driver != "fake-hardware" {
			t.Errorf("%s becomes %s", name, b.Driver)
		}
		deploy := "direct"
		switch {
		case strings.HasPrefix(name, "iscsi_"), strings.HasPrefix(name, "pxe_") && name != "pxe_agent_cimc", name == "fake_pxe":
			deploy = "iscsi" // as Ironic's of 2015
		case strings.HasPrefix(name, "fake") && name != "fake_agent":
			deploy = ""
		}
		if b.Interfaces["deploy"] != deploy {
			t.Errorf("%s deploys by %q, want %q", name, b.Interfaces["deploy"], deploy)
		}
	}
	for _, name := range []string{"", "ipmi", "redfish", "oneview", "ibmc", "pxe_nothing"} {
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
