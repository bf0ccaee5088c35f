package inspection

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// operator answers a condition's question. An error means that it cannot be answered,
// which fails the inspection.
type operator struct {
	signature
	holds func(args map[string]any) (bool, error)
}

func takes(required ...string) signature { return signature{required: required} }

var compared = signature{required: []string{"values"}, optional: []string{"force_strings"}}

// operatorTable is every operator.
var operatorTable = map[string]operator{
	"eq":       {compared, chain(equal)},
	"lt":       {compared, chain(func(a, b any) (bool, error) { return less(a, b) })},
	"gt":       {compared, chain(func(a, b any) (bool, error) { return less(b, a) })},
	"is-empty": {takes("value"), about(func(v any) bool { return slices.Contains([]string{"", "None", "[]", "{}"}, Text(v)) })},
	"is-none":  {takes("value"), about(func(v any) bool { return Text(v) == "None" })},
	"is-true":  {takes("value"), about(func(v any) bool { yes, known := truth(v, "yes", "true"); return known && yes })},
	"is-false": {takes("value"), about(func(v any) bool {
		if s, isText := v.(string); isText {
			return slices.Contains([]string{"no", "false"}, strings.ToLower(s))
		}
		yes, known := truth(v)
		return known && !yes || v == nil
	})},
	"in-net":   {takes("address", "subnet"), inNet},
	"matches":  {takes("value", "regex"), matches(true)},
	"contains": {takes("value", "regex"), matches(false)},
	"one-of": {signature{required: []string{"value"}, optional: []string{"values"}}, func(args map[string]any) (bool, error) {
		list, ok := args["values"].([]any)
		if !ok && args["values"] != nil {
			return false, fmt.Errorf("'values' must be a list")
		}
		return slices.ContainsFunc(list, func(v any) bool { same, _ := equal(args["value"], v); return same }), nil
	}},
}

// chain compares each value with the next.
func chain(holds func(a, b any) (bool, error)) func(map[string]any) (bool, error) {
	return func(args map[string]any) (bool, error) {
		list, ok := args["values"].([]any)
		if !ok {
			return false, fmt.Errorf("'values' must be a list")
		}
		asText, _ := truth(args["force_strings"], "yes", "true")
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			if asText {
				a, b = Text(a), Text(b)
			}
			if ok, err := holds(a, b); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

func about(holds func(v any) bool) func(map[string]any) (bool, error) {
	return func(args map[string]any) (bool, error) { return holds(args["value"]), nil }
}

// truth reads a truth value; words are the texts that mean yes.
func truth(v any, words ...string) (yes, known bool) {
	switch v := v.(type) {
	case string:
		return slices.Contains(words, strings.ToLower(v)), true
	default:
		n, ok := number(v)
		return n != 0, ok
	}
}

func equal(a, b any) (bool, error) {
	x, isNumber := number(a)
	y, too := number(b)
	if isNumber && too {
		return x == y, nil
	}
	return reflect.DeepEqual(a, b), nil
}

func less(a, b any) (bool, error) {
	x, isNumber := number(a)
	y, too := number(b)
	if isNumber && too {
		return x < y, nil
	}
	s, isText := a.(string)
	t, also := b.(string)
	if isText && also {
		return s < t, nil
	}
	return false, fmt.Errorf("%.80s and %.80s cannot be compared", shown(a), shown(b))
}

func inNet(args map[string]any) (bool, error) {
	subnet := Text(args["subnet"])
	if !strings.Contains(subnet, "/") {
		if a, err := netip.ParseAddr(subnet); err == nil {
			subnet = netip.PrefixFrom(a, a.BitLen()).String()
		}
	}
	network, err := netip.ParsePrefix(subnet)
	if err != nil {
		return false, fmt.Errorf("invalid value: %w", err)
	}
	address, err := netip.ParseAddr(Text(args["address"]))
	if err != nil {
		return false, fmt.Errorf("invalid value: %w", err)
	}
	return network.Contains(address.WithZone("")), nil
}

// matches looks for a regular expression anywhere, or for one that is the whole value.
func matches(whole bool) func(map[string]any) (bool, error) {
	return func(args map[string]any) (bool, error) {
		text := Text(args["regex"])
		if whole {
			text = "^(?:" + strings.TrimSuffix(text, "$") + ")$"
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return false, fmt.Errorf("invalid regular expression: %w", err)
		}
		return re.MatchString(Text(args["value"])), nil
	}
}

// holds reports whether a condition holds for s.
func (c *Condition) holds(s *Subject) (bool, error) {
	if c.Loop == nil {
		return c.once(s)
	}
	items, isList := c.Loop.([]any)
	if !isList {
		items = []any{c.Loop}
	}
	all, any, last, first := true, false, false, false
	for i, item := range items {
		var err error
		end := s.round(item)
		last, err = c.once(s)
		end()
		if err != nil {
			return false, err
		}
		all, any = all && last, any || last
		if i == 0 {
			first = last
		}
		if c.Multiple == "first" && last {
			return true, nil
		}
	}
	switch c.Multiple {
	case "all":
		return all, nil
	case "last":
		return last, nil
	case "first":
		return first, nil
	}
	return any, nil
}

func (c *Condition) once(s *Subject) (bool, error) {
	o := operatorTable[c.Op]
	args, _ := s.interpolate(c.Args).(map[string]any)
	if s.inLoop && slices.Contains(o.optional, "force_strings") {
		args["force_strings"] = true // an item in a text has become a text
	}
	yes, err := o.holds(args)
	if err != nil {
		return false, fmt.Errorf("condition %s: %w", c.Op, err)
	}
	return yes != c.Not, nil
}
