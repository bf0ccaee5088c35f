package inspection

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// extraHardware makes of the list of facts that hardware-detect writes, each of them an area, a
// part of it, a name and a value, the object that rules look into: plugin data extra/area/part/name
// in place of data. A list in another form stays as it came or, if the settings are strict, goes.
func extraHardware(p *Processor, s *Subject) error {
	data, sent := s.Plugin["data"]
	if !sent {
		return nil
	}
	facts, readable := data.([]any)
	readable = readable && !slices.ContainsFunc(facts, func(v any) bool {
		fact, isList := v.([]any)
		return !isList || p.set.ExtraHardwareStrict && len(fact) != 4
	})
	if !readable {
		s.Log.Warn("extra hardware data is no list of facts, rules do not see it", "node", s.Node.UUID)
		if p.set.ExtraHardwareStrict {
			delete(s.Plugin, "data")
		}
		return nil
	}
	extra, skipped := map[string]any{}, 0
	for _, v := range facts {
		fact, _ := v.([]any)
		if !addFact(extra, fact) {
			skipped++
		}
	}
	if skipped > 0 {
		s.Log.Warn("extra hardware data holds facts without area, part, name and value, which were left out", "node", s.Node.UUID, "facts", skipped)
	}
	s.Plugin["extra"] = extra
	delete(s.Plugin, "data")
	return nil
}

// addFact adds a fact to extra. Of one that is cut short it adds what is there of area and part,
// as Ironic's hook does, and reports false.
func addFact(extra map[string]any, fact []any) bool {
	at := extra
	for _, v := range fact[:min(len(fact), 2)] {
		name, isName := factName(v)
		if !isName {
			return false
		}
		inner, there := at[name].(map[string]any)
		if !there {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	if len(fact) < 4 {
		return len(fact) == 0 // of an empty one nothing is missing
	}
	name, isName := factName(fact[2])
	if isName {
		at[name] = factValue(fact[3])
	}
	return isName
}

// factName is a value as the name of a field of JSON; lists and objects are none.
func factName(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []any, map[string]any:
		return "", false
	case nil:
		return "null", true
	default:
		return fmt.Sprint(v), true
	}
}

// wholeNumber is what Ironic's hook reads as a number.
var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+(_[0-9]+)*$`)

// maxDigits bounds the texts that are read as numbers, for Ironic too.
const maxDigits = 4300

// factValue is a fact's value, as a whole number where it is a number or the text of a whole one.
func factValue(v any) any {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case string:
		text := strings.TrimSpace(v)
		if len(text) <= maxDigits && wholeNumber.MatchString(text) {
			if n, ok := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 10); ok {
				return json.Number(n.String())
			}
		}
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if f, err := v.Float64(); err == nil {
			n, _ := big.NewFloat(f).Int(nil)
			return json.Number(n.String())
		}
	}
	return v
}
