package hints

import (
	"fmt"
	"slices"
)

// most bounds the hints that one item of skip_block_devices stands for.
const most = 1024

// apart turns hints with alternatives for what names a disk into hints for one disk each. Otherwise a disk that fits one
// alternative would vouch for all of them, and one that hides its name would not be missed.
func (h Hints) apart() ([]Hints, error) {
	all := []Hints{{}}
	for _, r := range h.rules {
		var each []expression
		for _, e := range r.any {
			if !slices.Contains(inherent, r.key) || e.op != opOr {
				each = append(each, e)
				continue
			}
			for _, o := range e.operands {
				each = append(each, expression{op: opSame, operands: []string{o}})
			}
		}
		if !slices.Contains(inherent, r.key) || len(each) < 2 {
			for i := range all {
				all[i].rules = append(all[i].rules, r)
			}
			continue
		}
		if len(all)*len(each) > most {
			return nil, fmt.Errorf("it stands for more than %d disks", most)
		}
		var more []Hints
		for _, before := range all {
			for _, e := range each {
				one := rule{key: r.key, any: []expression{e}, text: fmt.Sprintf("%s=%s", r.key, e)}
				more = append(more, Hints{rules: append(slices.Clone(before.rules), one)})
			}
		}
		all = more
	}
	return all, nil
}
