package journal

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestOrderCountsAndAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(0)
		answered := j.Note(Record{Machine: "a", Kind: BMCWrite})
		time.Sleep(time.Second)
		j.Note(Record{Machine: "b", Kind: PowerOn})
		j.Note(Record{Machine: "a", Kind: PowerOn})
		answered(204)
		all := j.After(0, 0)
		if len(all) != 3 || all[0].Status != 204 || all[1].At != time.Second || all[2].Seq != 3 {
			t.Errorf("records %+v", all)
		}
		if got := j.After(1, 1); len(got) != 1 || got[0].Machine != "b" {
			t.Errorf("after 1, one: %+v", got)
		}
		if got := j.After(3, 0); len(got) != 0 {
			t.Errorf("after the last: %+v", got)
		}
		if c := j.Counts(""); c[PowerOn] != 2 || c[BMCWrite] != 1 {
			t.Errorf("counts %v", c)
		}
		if c := j.Counts("b"); c[PowerOn] != 1 || c[BMCWrite] != 0 {
			t.Errorf("counts of b %v", c)
		}
	})
}

func TestTheOldestGoFirst(t *testing.T) {
	j := New(8)
	for range 100 {
		j.Note(Record{Kind: PowerOn})
	}
	all := j.After(0, 0)
	if len(all) < 8 || len(all) > 10 || all[len(all)-1].Seq != 100 || j.Forgotten()+uint64(len(all)) != 100 {
		t.Errorf("%d records, the last %d, %d forgotten", len(all), all[len(all)-1].Seq, j.Forgotten())
	}
	if n := j.Counts("")[PowerOn]; n != 100 {
		t.Errorf("%d counted, want 100 whatever is remembered", n)
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(0)
		go func() {
			time.Sleep(time.Minute)
			j.Note(Record{Machine: "late"})
		}()
		if got := j.Await(t.Context(), 0, 0); len(got) != 1 || got[0].Machine != "late" {
			t.Errorf("awaited %+v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got := j.Await(ctx, 1, 0); got != nil {
			t.Errorf("awaited %+v of a silent fleet", got)
		}
	})
}
