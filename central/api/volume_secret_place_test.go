package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// The stored secret of a volume is shown to no portal that a caller names who does not know it.
func TestAVolumesSecretStaysWhereItWas(t *testing.T) {
	t.Parallel()
	const id = "eeeeeeee-2222-4333-8444-555555555555"
	lessee := lesseeProject + " " + adminRoles
	for name, c := range map[string]struct {
		who, body string
		status    int
	}{
		"another portal":   {lessee, `[{"op":"replace","path":"/properties/target_portal","value":"thief.example:3260"}]`, 400},
		"more portals":     {lessee, `[{"op":"add","path":"/properties/target_portals","value":["thief.example:3260"]}]`, 400},
		"with the mask":    {lessee, `[{"op":"replace","path":"/properties","value":{"target_portal":"thief.example","auth_password":"******"}}]`, 400},
		"with the secret":  {lessee, `[{"op":"replace","path":"/properties","value":{"target_portal":"new.example","auth_password":"open sesame"}}]`, 200},
		"without it":       {lessee, `[{"op":"replace","path":"/properties","value":{"target_portal":"new.example"}}]`, 200},
		"another property": {lessee, `[{"op":"replace","path":"/properties/target_lun","value":2}]`, 200},
		"an administrator": {"system " + adminRoles, `[{"op":"replace","path":"/properties/target_portal","value":"new.example:3260"}]`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			b := newGuarded(t)
			b.observe(nodeID, func(n *store.Node) { n.PowerState = "power off" })
			b.wantAs(201, "system "+adminRoles, "POST", "/v1/volume/targets", `{"uuid":"`+id+`","node_uuid":"`+nodeID+`","volume_type":"iscsi","boot_index":0,"volume_id":"v",
				"properties":{"target_portal":"10.0.0.9:3260","target_iqn":"iqn.2026-11.org.example:a","target_lun":1,"auth_username":"u","auth_password":"open sesame"}}`)
			a := b.wantAs(c.status, c.who, "PATCH", "/v1/volume/targets/"+id, c.body)
			if strings.Contains(a.body, "sesame") || c.status == 400 && !strings.Contains(a.body, "auth_password") {
				t.Errorf("the answer: %s", a.body)
			}
		})
	}
}
