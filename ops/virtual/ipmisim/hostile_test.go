package ipmisim

import (
	"os/exec"
	"strconv"
	"testing"
)

// Each machine of the rack reaches the BMCs of all, and needs their passwords. Cipher suite 0 is not tried: the simulator takes it.
func TestTheMachineIsControlledWithThePasswordOnly(t *testing.T) {
	t.Parallel()
	needs(t, "ipmi_sim", "ipmitool")
	c := &computer{}
	at := start(t, c, "s3cret-pass")
	for name, args := range map[string][]string{
		"IPMI 1.5 without authentication": {"-I", "lan", "-A", "NONE"},
		"IPMI 1.5 in the clear, wrong":    {"-I", "lan", "-A", "PASSWORD", "-P", "wrong"},
		"cipher suite 3, wrong":           {"-I", "lanplus", "-C", "3", "-P", "wrong"},
		"nobody's name":                   {"-I", "lanplus", "-C", "3", "-U", "", "-P", ""},
	} {
		all := append([]string{"-H", at.Addr().String(), "-p", strconv.Itoa(int(at.Port())), "-U", "admin", "-N", "1", "-R", "1"}, args...)
		out, err := exec.CommandContext(t.Context(), "ipmitool", append(all, "chassis", "power", "on")...).CombinedOutput()
		if c.On() {
			t.Errorf("%s: the machine is on (%v): %s", name, err, out)
			c.set(func() { c.on = false })
		}
	}
}
