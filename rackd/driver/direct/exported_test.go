package direct

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// The history says where the volume is. What another agent answers does not get into it as it is.
func TestWhereAVolumeIs(t *testing.T) {
	const good = `{"service_result":{"target_portal":"10.1.0.7:3260","target_iqn":"iqn.2008-10.org.openstack:0198","target_lun":1,"disk":"/dev/vda","bytes":20000000000},"service_step":{"step":"export_volume"}}`
	if got := exported(json.RawMessage(good), driver.InService); !strings.HasPrefix(got, "disk /dev/vda (20.0 GB) is the iSCSI volume target_portal 10.1.0.7:3260, target_iqn iqn.2008-10.org.openstack:0198, target_lun 1.") {
		t.Error(got)
	}
	for name, c := range map[string]struct {
		result string
		flow   driver.Flows
	}{
		"another flow":     {good, driver.InClean},
		"nothing":          {``, driver.InService},
		"no object":        {`"done"`, driver.InService},
		"lines":            {strings.Replace(good, "/dev/vda", `a\nb`, 1), driver.InService},
		"no portal":        {strings.Replace(good, "10.1.0.7:3260", "evil", 1), driver.InService},
		"a long name":      {strings.Replace(good, "0198", strings.Repeat("0", 300), 1), driver.InService},
		"an impossible":    {strings.Replace(good, `"target_lun":1`, `"target_lun":-1`, 1), driver.InService},
		"of another shape": {strings.Replace(good, `"target_lun":1`, `"target_lun":"x"`, 1), driver.InService},
	} {
		if got := exported(json.RawMessage(c.result), c.flow); !strings.Contains(got, "does not say") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
