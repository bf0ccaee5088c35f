package redfish

import (
	"encoding/json"
	"strconv"
	"strings"
)

// quantity is a number, which some BMCs write as a text. What is none counts as not told, 0.
type quantity float64

// UnmarshalJSON never fails.
func (q *quantity) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		v = 0
	}
	*q = quantity(v)
	return nil
}
