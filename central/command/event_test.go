package command

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// An operator lists what was set aside, looks at it, has it applied, or forgets it.
func TestEventsThatWereSetAside(t *testing.T) {
	address := storetest.SQLite(t)
	db := storetest.Open(t, address)
	n := storetest.NewNode("n")
	storetest.Insert(t, db, n)
	body, err := json.Marshal(work.Event{Kind: work.PowerObserved, Node: n.UUID, Rackd: "r", Time: time.Now().UTC(), Power: "power on"})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		for _, b := range [][]byte{body, []byte("{rubbish")} {
			if _, err := tx.SetAside(ctx, &store.SetAside{Site: "east", Place: 7, Subject: bus.EventSubject("", n.UUID), Node: n.UUID, Kind: "power", Reason: "refused", Error: "out of\x00range", Body: b}, 10); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(generated(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	list := func() (rows []setAside) {
		t.Helper()
		var out bytes.Buffer
		if err := (&listEvents{database{address}, true}).Run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(&out); lines.More(); {
			var row setAside
			if err := lines.Decode(&row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		return rows
	}
	var table bytes.Buffer
	if err := (&listEvents{database{address}, false}).Run(t.Context(), &table); err != nil || strings.Count(table.String(), n.UUID) != 2 {
		t.Errorf("table, error %v:\n%s", err, table.String())
	}
	rows := list()
	if len(rows) != 2 {
		t.Fatalf("rows %+v", rows)
	}
	log := slog.New(slog.DiscardHandler)
	for _, row := range rows {
		one := oneEvent{database{address}, row.ID}
		var shown bytes.Buffer
		if err := (&showEvent{one}).Run(t.Context(), &shown); err != nil {
			t.Fatal(err)
		}
		apply := applyEvent{oneEvent: one, keyFile: keyFile{KeyFile: key}}
		err := apply.Run(t.Context(), log)
		if rubbish := shown.String() == "{rubbish\n"; rubbish != (err != nil) {
			t.Errorf("apply %q: error %v", shown.String(), err)
		}
		if err != nil {
			if err := (&dropEvent{one}).Run(t.Context(), log); err != nil {
				t.Error(err)
			}
		}
		if err := (&dropEvent{one}).Run(t.Context(), log); err == nil {
			t.Error("an event that is gone was dropped")
		}
	}
	if rows := list(); len(rows) != 0 {
		t.Errorf("left: %+v", rows)
	}
	if got, err := db.Node(t.Context(), n.UUID); err != nil || got.PowerState != "power on" {
		t.Errorf("power %q, error %v", got.PowerState, err)
	}
}
