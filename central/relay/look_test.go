package relay

import (
	"testing"
	"time"
)

func TestWhatAStreamTellsOfLoss(t *testing.T) {
	born := time.Unix(1000, 0)
	before := witness{born, 5, 40, 20}
	for name, c := range map[string]struct {
		now  witness
		want loss // what: anything
	}{
		"as it was":               {before, loss{}},
		"more keys":               {witness{born, 5, 60, 30}, loss{}},
		"all changed":             {witness{born, 35, 80, 20}, loss{}},
		"purged":                  {witness{born, 41, 40, 0}, loss{what: "x"}},
		"purged and written to":   {witness{born, 41, 70, 20}, loss{what: "x", unsure: true}},
		"some keys lost":          {witness{born, 5, 45, 19}, loss{what: "x"}},
		"made anew":               {witness{born.Add(1), 1, 40, 20}, loss{what: "x", older: true}},
		"back from an older copy": {witness{born, 5, 39, 20}, loss{what: "x", older: true}},
	} {
		got := before.loss(c.now)
		if (got.what != "") != (c.want.what != "") || got.older != c.want.older || got.unsure != c.want.unsure {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := (witness{created: born}).loss(witness{born, 1, 1, 1}); got.what != "" {
		t.Errorf("the first key of an empty bucket: %+v", got)
	}
}

// What was found wrong is remembered until all keys have been compared, also by the
// next who follows the site.
func TestMemory(t *testing.T) {
	var m memory
	if got := m.note(witness{time.Unix(1, 0), 1, 9, 9}); got.what != "" {
		t.Errorf("first look: %+v", got)
	}
	m.compared = time.Unix(50, 0)
	m.wrote(12, false)
	if got := m.note(witness{time.Unix(1, 0), 1, 10, 9}); got.what == "" || !got.older {
		t.Errorf("back at revision 10 after 12 was written: %+v", got)
	}
	m.compared, m.every = time.Unix(50, 0), false
	if m.note(witness{time.Unix(1, 0), 1, 8, 8}).what == "" || !m.compared.IsZero() || !m.every {
		t.Errorf("after a roll-back: compared %v, every %v, want all documents looked at", m.compared, m.every)
	}
	m.note(witness{time.Unix(1, 0), 1, 8, 7})
	if !m.compared.IsZero() || !m.every {
		t.Errorf("after a second loss: compared %v, every %v, want all documents looked at", m.compared, m.every)
	}
	m.compared, m.every = time.Unix(60, 0), false
	if m.note(witness{time.Unix(1, 0), 1, 12, 7}).what != "" || m.compared.IsZero() {
		t.Errorf("an ordinary change: compared %v", m.compared)
	}
	m.compared = time.Unix(70, 0)
	m.note(witness{time.Unix(1, 0), 1, 12, 7})
	m.wrote(13, true)
	m.wrote(14, true)
	m.wrote(15, false)
	if got := m.note(witness{time.Unix(1, 0), 15, 15, 8}); got.what == "" || !m.compared.IsZero() {
		t.Errorf("one of nine messages was lost since two were added: %+v, compared %v", got, m.compared)
	}
}
