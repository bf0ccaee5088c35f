package view

import (
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

type entry struct {
	jetstream.KeyValueEntry
	revision uint64
	doc      work.Document // ID empty: a marker
}

func (e entry) Key() string        { return bus.NodeKey("g", "n") }
func (e entry) Revision() uint64   { return e.revision }
func (e entry) Created() time.Time { return time.Now() }
func (e entry) Value() []byte      { body, _ := json.Marshal(e.doc); return body }
func (e entry) Operation() jetstream.KeyValueOp {
	if e.doc.ID == "" {
		return jetstream.KeyValuePurge
	}
	return jetstream.KeyValuePut
}

// The bus comes back from an older copy of itself. What is known to be newer than the
// copy stays known, under an epoch that nobody reaches who goes on from the copy; and
// what the copy does not have at all is lost.
func TestOlderCopyOfAWork(t *testing.T) {
	at := func(id string, generation int64, epoch uint64, step string) work.Document {
		return work.Document{ID: id, Node: "n", Group: "g", Generation: generation, Epoch: epoch, Owner: "a", Lease: "l", Seq: 3,
			Checkpoint: work.Checkpoint{Step: step}}
	}
	ended := at("w", 2, 6, "last")
	ended.Result = &work.Result{OK: true}
	for name, c := range map[string]struct {
		known, copy work.Document
		rev         uint64
		want        Work
	}{
		"its work stood earlier": {at("w", 2, 6, "second"), at("w", 2, 5, "first"), 40,
			Work{Doc: at("w", 2, 6+2*work.LostEpochs, "second"), Remembered: true}},
		"it shows work of before": {at("w", 2, 6, "second"), at("v", 1, 9, "third"), 40,
			Work{Doc: at("w", 2, 6+2*work.LostEpochs, "second"), Remembered: true}},
		"its work had not ended": {ended, at("w", 2, 6, "second"), 40,
			Work{Doc: work.Document{ID: "w", Generation: 2, Epoch: 6 + 2*work.LostEpochs, Checkpoint: work.Checkpoint{Step: "last"}}, Remembered: true}},
		"there was no work": {at("w", 2, 6, "second"), work.Document{}, 40, Work{Doc: at("w", 2, 6, "second"), Lost: true}},
		"no older copy: it was lost and written anew": {at("w", 2, 6, "second"), at("w", 2, 7+work.LostEpochs, "second"), 40,
			Work{Doc: at("w", 2, 7+work.LostEpochs, "second")}},
		"no older copy: it was written":    {at("w", 2, 6, "second"), at("w", 2, 7, "third"), 60, Work{Doc: at("w", 2, 7, "third")}},
		"no older copy: another is open":   {at("w", 2, 6, "second"), at("x", 3, 7, ""), 60, Work{Doc: at("x", 3, 7, "")}},
		"a copy with work that is unknown": {at("w", 2, 6, "second"), at("x", 3, 7, ""), 40, Work{Doc: at("x", 3, 7, "")}},
	} {
		v := New(nil, keys{}, groups{"g"}, forged{}, func(string) {}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		v.applyWork(entry{revision: 50, doc: c.known})
		v.reread("g")
		v.applyWork(entry{revision: c.rev, doc: c.copy})
		got := v.Work("n")
		if got == nil || got.Revision != c.rev || got.Lost != c.want.Lost || got.Remembered != c.want.Remembered || got.Doc.Lost != c.want.Remembered ||
			got.Doc.ID != c.want.Doc.ID || got.Doc.Epoch != c.want.Doc.Epoch || got.Doc.Checkpoint.Step != c.want.Doc.Checkpoint.Step || got.Doc.Owner != c.want.Doc.Owner {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Work may be purged while it is read past the watch: what was read is not put in again.
func TestWhatIsReadPastTheWatchMayBeGone(t *testing.T) {
	v := New(nil, keys{}, nil, forged{}, nil, slog.New(slog.DiscardHandler))
	d := work.Document{ID: "w", Node: "n", Group: "g"}
	v.applyWork(entry{revision: 50, doc: d})
	v.applyWork(entry{revision: 51})
	v.takeWork(entry{revision: 50, doc: d}, false)
	if w := v.Work("n"); w != nil {
		t.Errorf("work that is over came back: %+v", w)
	}
	v.takeWork(entry{revision: 52, doc: d}, false)
	if w := v.Work("n"); w == nil || w.Revision != 52 {
		t.Errorf("work that the watch has not shown yet: %+v", w)
	}
}
