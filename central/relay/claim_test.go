package relay

import "testing"

// A key tells that a claimed work was never sent only where nothing but a copy that was put
// back could make it look so after it was, and then only while the copy is no older than it looks.
func TestWhatAKeyTellsOfAClaim(t *testing.T) {
	older := []byte(`{"id":"v"}`)
	for name, c := range map[string]struct {
		key           held
		claimed, last uint64
		want          bool
	}{
		"nobody has claimed it":                        {held{}, 0, 0, true},
		"nobody has claimed it, the key was used":      {held{revision: 9}, 0, 0, true},
		"a marker that was there before":               {held{revision: 7}, 9, 9, true},
		"the newest marker that was read":              {held{revision: 9}, 9, 9, true},
		"others have been written since":               {held{revision: 7}, 9, 30, true},
		"a marker that came after the claim":           {held{revision: 10}, 9, 10, false},
		"a key that never held anything, or lost it":   {held{}, 9, 30, false},
		"an empty bucket, when it was claimed":         {held{}, 1, 0, false},
		"the first message of an empty bucket":         {held{revision: 2}, 1, 2, false},
		"a bucket that is back before the claim":       {held{revision: 7}, 9, 8, false},
		"older work, as it was":                        {held{7, older}, 9, 9, true},
		"older work, which its owner goes on with":     {held{12, older}, 9, 12, true},
		"older work in a bucket that is an older copy": {held{7, older}, 9, 8, false},
	} {
		if got := (&order{work: c.key}).tells(c.claimed, c.last); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
