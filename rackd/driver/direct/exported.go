package direct

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// exportedName is what an iSCSI name or a disk of an agent's may look like in the history.
var exportedName = regexp.MustCompile(`^[A-Za-z0-9./:_-]{1,223}$`)

// exported says in the history which disk the agent has made a volume of another machine's, and where: what an operator writes into a
// volume target of that machine. The account is the operator's own, and is not told.
func exported(result json.RawMessage, f driver.Flows) string {
	var answer map[string]json.RawMessage
	var v agentapi.ExportedVolume
	err := json.Unmarshal(result, &answer)
	if err == nil {
		err = json.Unmarshal(answer[f.String()+"_result"], &v)
	}
	if _, wrong := netip.ParseAddrPort(v.Portal); err != nil || wrong != nil || !exportedName.MatchString(v.IQN) || !exportedName.MatchString(v.Disk) || v.LUN < 0 || v.LUN > 255 {
		return "the agent has exported a disk, and does not say in a readable way where"
	}
	return fmt.Sprintf("disk %s (%.1f GB) is the iSCSI volume target_portal %s, target_iqn %s, target_lun %d. It ends when the flow goes on: a step hold keeps it", v.Disk, float64(v.Bytes)/1e9, v.Portal, v.IQN, v.LUN)
}
