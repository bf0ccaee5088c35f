package enrol_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// servers joins three of a site, which know each other.
func (w *world) servers() (list []*membership.Member) {
	w.Helper()
	peers := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	for i, p := range peers {
		m, err := w.join(w.token(join.Scope{Role: join.Bus, Site: "east", Name: fmt.Sprint("b", i), Address: p, Peers: peers}), "")
		if err != nil {
			w.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

func (w *world) renew(m *membership.Member) join.Trust {
	w.Helper()
	if _, err := m.Renew(w.Context()); err != nil {
		w.Fatal(err)
	}
	trust, err := m.Trust()
	if err != nil {
		w.Fatal(err)
	}
	return trust
}

// Servers learn of each other soon, and stop to ask often when all are there.
func TestClusterAssembles(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	all := w.servers()
	for i, want := range []int{60, 60, 0} {
		if got := all[i].RenewSeconds; got != want {
			t.Errorf("server %d of three is to renew in %d s, want %d", i+1, got, want)
		}
	}
	var keys []string
	for _, m := range all {
		trust := w.renew(m)
		if len(trust.RouteKeys) != 3 || m.RenewSeconds != 0 || keys != nil && !slices.Equal(keys, trust.RouteKeys) {
			t.Errorf("%s goes by the keys %q and is to renew in %d s", m.Scope, trust.RouteKeys, m.RenewSeconds)
		}
		keys = trust.RouteKeys
	}
	if again := w.renew(all[0]); !slices.Equal(keys, again.RouteKeys) {
		t.Errorf("the keys for routes changed with a renewal: %q, then %q", keys, again.RouteKeys)
	}
}

// A cluster has no pins while one of its servers has no key of that kind: one that has not been
// upgraded would be put off. One that has expired does not count.
func TestPinsWaitForServersOfBefore(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	all := w.servers()
	change := func(m *membership.Member, f func(*store.Member)) {
		t.Helper()
		err := w.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			row, err := tx.Member(ctx, m.ID)
			if err != nil {
				return err
			}
			f(row)
			return tx.RenewMember(ctx, row)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	change(all[2], func(m *store.Member) { m.RouteKey = "" })
	if trust := w.renew(all[0]); trust.RouteKeys != nil {
		t.Errorf("pins %q while one has no key", trust.RouteKeys)
	}
	change(all[2], func(m *store.Member) { m.ExpiresAt = time.Now().Add(-time.Hour) })
	if trust := w.renew(all[0]); len(trust.RouteKeys) != 2 {
		t.Errorf("pins %q, want those of the two whose certificates count", trust.RouteKeys)
	}
}

// A new password at each revocation; the one before is dialled with until all have had the time
// to renew.
func TestClusterPasswordChanges(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	all := w.servers()
	first := w.renew(all[0])
	if err := w.auth.RevokeMember(t.Context(), join.Bus, "b2"); err != nil {
		t.Fatal(err)
	}
	second := w.renew(all[0])
	if second.ClusterPassword == first.ClusterPassword || second.ClusterPasswordBefore != first.ClusterPassword || len(second.RouteKeys) != 2 {
		t.Errorf("after a revocation the trust is %+v, it was %+v", second, first)
	}
	if !slices.Equal(all[0].Servers, []string{"10.0.0.1", "10.0.0.2"}) {
		t.Errorf("servers %q, want those that are left", all[0].Servers)
	}
	// One is replaced by a token with its name: the old one is out, too.
	m, err := w.join(w.token(join.Scope{Role: join.Bus, Site: "east", Name: "b1", Address: "10.0.0.2"}), "")
	if err != nil {
		t.Fatal(err)
	}
	third := w.renew(all[0])
	if third.ClusterPassword == second.ClusterPassword || third.ClusterPasswordBefore != second.ClusterPassword || len(third.RouteKeys) != 2 || slices.Equal(third.RouteKeys, second.RouteKeys) {
		t.Errorf("after a replacement the trust is %+v, it was %+v", third, second)
	}
	w.now.Store(int64(3 * time.Hour))
	w.renew(m)
	w.renew(all[0])
	if trust := w.renew(m); trust.ClusterPasswordBefore != "" || trust.ClusterPassword != third.ClusterPassword {
		t.Errorf("hours later, all have renewed: %+v", trust)
	}
	// Another replica, whose memory is of before, says the same.
	other := w.open(w.key)
	if err := other.RevokeMember(t.Context(), join.Bus, "b1"); err != nil {
		t.Fatal(err)
	}
	if trust := w.renew(all[0]); trust.ClusterPassword == third.ClusterPassword {
		t.Error("a revocation by another replica is not seen")
	}
}
