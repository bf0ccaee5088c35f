package ipmi

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// eventLog answers for a log of records. Each clear takes looks until it is done; keeps: the records stay.
type eventLog struct {
	mu      sync.Mutex
	records [][]byte
	looks   int
	keeps   bool
	circle  bool
	clears  int
	fails   func(q request) types.CompletionCode
}

func (l *eventLog) serve(q request) ([]byte, types.CompletionCode, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.NetFn != netFnStorage {
		return nil, 0, false
	}
	if l.fails != nil {
		if code := l.fails(q); code != 0 {
			return nil, code, true
		}
	}
	switch q.Command {
	case cmdSELInfo:
		return []byte{0x51, byte(len(l.records)), 0, 0, 0, 0, 0, 0, 0, byte(l.clears), 0, 0, 0, 0}, 0, true
	case cmdReserveSEL:
		return []byte{3, 0}, 0, true
	case cmdGetSEL:
		id := int(q.Data[2]) | int(q.Data[3])<<8
		if id == lastSEL {
			id = len(l.records)
		}
		id = max(id, 1)
		if id > len(l.records) {
			return nil, 0xCB, true
		}
		next := id + 1
		if next > len(l.records) {
			if next = lastSEL; l.circle {
				next = 1
			}
		}
		return append([]byte{byte(next), byte(next >> 8)}, l.records[id-1]...), 0, true
	case cmdClearSEL:
		if string(q.Data[2:5]) != "CLR" || q.Data[0] != 3 {
			return nil, 0xCC, true
		}
		if q.Data[5] == clearInitiate && !l.keeps {
			l.records = nil
			l.clears++
		}
		if l.looks > 0 {
			l.looks--
			return []byte{0}, 0, true
		}
		return []byte{1}, 0, true
	}
	return nil, 0, false
}

// set changes the log between requests.
func (l *eventLog) set(do func()) { l.mu.Lock(); defer l.mu.Unlock(); do() }

func record(id byte, rest ...byte) []byte {
	return append([]byte{id, 0}, rest...)
}

var fan = []byte{0x02, 0, 0, 0, 0x70, 0x20, 0, 4, 4, 0x31, 1, 0x52, 0, 0}

func TestClearLog(t *testing.T) {
	clearPause = 0
	t.Cleanup(func() { clearPause = time.Second })
	for name, c := range map[string]struct {
		log  *eventLog
		want string
	}{
		"at once":       {&eventLog{}, ""},
		"after a while": {&eventLog{looks: 5}, ""},
		"for ever":      {&eventLog{looks: 500}, "has been erasing"},
		"not at all":    {&eventLog{keeps: true}, "still has 3 entries"},
	} {
		r := newRig(t, "s3cret-pass")
		c.log.records = [][]byte{record(1, fan...), record(2, fan...), record(3, fan...)}
		r.set(func() { r.answer = c.log.serve })
		d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
		err := d.ClearLog(t.Context(), drivertest.NewRig().Task(networkboot.IPXE()).Fence, n)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What firmware does wrong with its log ends each reading.
func TestLogsOfBadFirmware(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	l := &eventLog{records: [][]byte{record(1, fan...), record(2, fan...)}, circle: true}
	r.set(func() { r.answer = l.serve })
	if _, _, err := d.LogEntries(t.Context(), n, ""); err == nil || !strings.Contains(err.Error(), "no end") {
		t.Errorf("records in a circle: %v", err)
	}
	l.set(func() { l.circle = false })
	entries, mark, err := d.LogEntries(t.Context(), n, "")
	if err != nil || len(entries) != 2 || entries[0].At.IsZero() {
		t.Fatalf("%v, %v", entries, err)
	}
	// A record of the same number that says something else: the log was cleared meanwhile.
	other := append([]byte{}, fan...)
	other[11] = 0x58
	l.set(func() { l.records = [][]byte{record(1, fan...), record(2, other...)} })
	if again, _, err := d.LogEntries(t.Context(), n, mark); err != nil || len(again) != 2 {
		t.Errorf("a log that began anew: %v, %v", again, err)
	}
	if again, _, err := d.LogEntries(t.Context(), n, "no mark"); err != nil || len(again) != 2 {
		t.Errorf("a mark of another program: %v, %v", again, err)
	}
	l.set(func() {
		for range 700 {
			l.records = append(l.records, record(byte(len(l.records)+1), fan...))
		}
		for i, raw := range l.records {
			raw[0], raw[1] = byte(i+1), byte((i+1)>>8)
		}
		l.fails = func(request) types.CompletionCode { return 0xC1 }
	})
	if _, err := d.LogEnd(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a BMC without a log: %v", err)
	}
	// Numbers that count from the start of the BMC are no times.
	if e := entryOf(record(9, 2, 9, 0, 0, 0, 0x20, 0, 4, 4, 0x31, 1, 0x52, 0, 0)); !e.At.IsZero() || e.ID != "9" {
		t.Errorf("%+v", e)
	}
}

// Whatever a record holds, it is put into words.
func FuzzEntry(f *testing.F) {
	f.Add(record(1, fan...))
	f.Add([]byte{1, 0, 0xC1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == selRecord {
			if e := entryOf(raw); e.Text == "" || e.ID == "" {
				t.Errorf("% X: %+v", raw, e)
			}
		}
	})
}
