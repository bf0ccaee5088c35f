package hints

import (
	"encoding/json"
	"errors"
)

// RootDevice returns what a node asks of its root device: the hints of its instance, else those of its properties, nil for none.
// Clients of Ironic write an object or its JSON text. byInstance says that the hints are the instance's, which end with it.
func RootDevice(instanceInfo, properties map[string]any) (raw map[string]any, byInstance bool, err error) {
	for i, from := range []map[string]any{instanceInfo, properties} {
		given := from["root_device"]
		if text, is := given.(string); is {
			if text == "" {
				continue
			}
			if json.Unmarshal([]byte(text), &given) != nil {
				return nil, false, errNoHints
			}
		}
		h, isObject := given.(map[string]any)
		if given != nil && !isObject {
			return nil, false, errNoHints
		}
		if len(h) > 0 {
			return h, i == 0, nil
		}
	}
	return nil, false, nil
}

var errNoHints = errors.New("root_device must be an object of hints")
