package node

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Documents were JSON once. Such a one is read for as long as it lies on a bus: central writes
// a node's anew when something of the node changes.

// ErrOther means that a document names another node than its key.
var ErrOther = errors.New("the document is that of another node")

func isJSON(body []byte) bool { return len(body) > 0 && body[0] == '{' }

func readJSON(uuid string, body []byte) (*Document, error) {
	var d Document
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, err
	}
	if d.UUID != uuid {
		return nil, fmt.Errorf("%w: %q, its key that of %q", ErrOther, d.UUID, uuid)
	}
	return &d, nil
}
