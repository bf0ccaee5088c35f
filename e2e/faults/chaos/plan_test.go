package chaos

import (
	"slices"
	"testing"
	"time"
)

var shape = Shape{Rackds: []int{3, 3}, Machines: []int{20, 12}, Central: 3, Hub: 3, Servers: 3, Clocks: true}

func TestPlanFollowsFromItsSeed(t *testing.T) {
	const length = 10 * time.Minute
	a, b := Plan(7, length, shape), Plan(7, length, shape)
	if !slices.Equal(a, b) {
		t.Error("one seed made two plans")
	}
	if slices.Equal(a, Plan(8, length, shape)) {
		t.Error("two seeds made one plan")
	}
	// A longer run begins as a shorter one does, so that a failure early in a long run
	// is seen again in a short one.
	short := Plan(7, length/2, shape)
	for _, f := range short {
		if !slices.Contains(a, f) {
			t.Errorf("the longer plan lacks %v", f)
		}
	}
}

func TestFaultsOfALaneDoNotOverlap(t *testing.T) {
	const length = 30 * time.Minute
	seen := map[Kind]int{}
	end := map[string]time.Duration{}
	for _, f := range Plan(3, length, shape) {
		seen[f.Kind]++
		if f.At+f.For > length {
			t.Errorf("%v ends after the run", f)
		}
		// Kinds of one lane have their site and their first kind in common.
		for i, l := range lanes(shape) {
			if l.site == f.Site && slices.Contains(l.kinds, f.Kind) {
				key := string(rune(i))
				if f.At < end[key] {
					t.Errorf("%v at %v begins before the one before it ends at %v", f, f.At, end[key])
				}
				end[key] = f.At + f.For
				break
			}
		}
	}
	for _, l := range lanes(shape) {
		for _, k := range l.kinds {
			if seen[k] == 0 {
				t.Errorf("half an hour without a %q", k)
			}
		}
	}
}
