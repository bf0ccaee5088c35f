package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// countedProperties are those that schedulers calculate with: whole numbers, not below 0,
// where they are given at all.
var countedProperties = []string{"local_gb", "memory_mb"}

// checkProperties refuses properties with which nobody could calculate.
func checkProperties(n *store.Node) error {
	var wrong []string
	for _, name := range countedProperties {
		if v := n.Properties[name]; v != nil && !counts(v) {
			said, isText := v.(string)
			if !isText {
				said = wire.Repr(v)
			}
			wrong = append(wrong, name+"="+said)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return wire.Invalid("The following properties for node %s should be non-negative integers, but provided values are: %.400s",
		n.UUID, strings.Join(wrong, ", "))
}

// counts reports whether v is a number that is not negative, or a text that is such a
// whole one. Numbers with a fraction count as what is before it, as in Ironic.
func counts(v any) bool {
	switch v := v.(type) {
	case bool:
		return true
	case json.Number:
		f, err := v.Float64()
		return err == nil && f > -1
	case float64:
		return v > -1
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return err == nil && n >= 0
	}
	return false
}

// checkNewNetworkData refuses a PATCH that replaces network_data by what is none, such as nothing:
// to take it away is to remove it. Versions that do not know the field are refused for that.
func checkNewNetworkData(r *Request, ops []patch.Op) error {
	for _, op := range ops {
		if r.Version < networkDataSince || op.Root() != "network_data" || !op.Whole() || op.Kind == patch.Remove {
			continue
		}
		err := fmt.Errorf("%s is not of type 'object'", wire.Repr(op.Value))
		if data, isObject := op.Value.(map[string]any); isObject {
			err = checkNetwork(data)
		}
		if err != nil {
			return wire.Invalid("Invalid network_data: %v ", err) // with a space, as in Ironic
		}
	}
	return nil
}
