package main

import "testing"

func TestPowerPress(t *testing.T) {
	event := func(kind, code, value byte) []byte {
		e := make([]byte, eventSize)
		e[16], e[18], e[20] = kind, code, value
		return e
	}
	for _, c := range []struct {
		event []byte
		want  bool
	}{
		{event(1, 116, 1), true},
		{event(1, 116, 0), false}, // released
		{event(1, 30, 1), false},
		{event(0, 116, 1), false},
		{nil, false},
	} {
		if got := isPowerPress(c.event); got != c.want {
			t.Errorf("%v: %v", c.event, got)
		}
	}
}
