package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
)

func vault(t *testing.T, s *store.Store) {
	for _, v := range []string{"first", "second"} {
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertSecret(ctx, &store.Secret{Name: "b", Value: v})
		})
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertSecret(ctx, &store.Secret{Name: "a", Value: "x"})
	})
	got, err := s.Secret(t.Context(), "b")
	if err != nil || got.Value != "first" {
		t.Fatalf("secret %v, error %v, want the first", got, err)
	}
	replace := func(ctx context.Context, tx *store.Tx) error { return tx.ReplaceSecret(ctx, got, "third") }
	update(t, s, replace)
	if err := s.Update(t.Context(), replace); !errors.Is(err, store.ErrConflict) {
		t.Errorf("replacing what has changed: %v, want ErrConflict", err)
	}
	page, err := s.Secrets(t.Context(), "a", 10)
	if err != nil || len(page) != 1 || page[0].Value != "third" {
		t.Errorf("page after a: %v, error %v", page, err)
	}
	if _, err := s.Secret(t.Context(), "c"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing secret: %v, want ErrNotFound", err)
	}
}

func joinTokens(t *testing.T, s *store.Store) {
	at := time.Unix(1000, 0).UTC()
	scope := join.Scope{Role: join.Rackd, Site: "east", Group: "rack-a", FailoverOf: []string{"rack-b"}}
	for _, id := range []string{"1", "2"} {
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertJoinToken(ctx, &store.JoinToken{ID: id, SecretHash: "h" + id, Scope: scope, ExpiresAt: at})
		})
	}
	// Many at once: one gets it.
	var used atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				return tx.UseJoinToken(ctx, "1", fmt.Sprint("k", i), "m")
			})
			if err == nil {
				used.Add(1)
			} else if !errors.Is(err, store.ErrConflict) {
				t.Errorf("token not used: %v, want ErrConflict", err)
			}
		})
	}
	wg.Wait()
	expect(t, "uses", used.Load(), int64(1))
	revoke := func(id string) error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.RevokeJoinToken(ctx, id) })
	}
	if err := revoke("1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoking a used token: %v, want ErrNotFound", err)
	}
	if err := revoke("2"); err != nil {
		t.Error(err)
	}
	list, err := s.JoinTokens(t.Context(), "", 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("tokens %v, error %v", list, err)
	}
	expect(t, "used", list[0].UsedAt.IsZero(), false)
	expect(t, "revoked", list[1].RevokedAt.IsZero(), false)
	expect(t, "expires", list[0].ExpiresAt, at)
	expect(t, "scope", list[0].Scope.Group+" "+list[0].Scope.FailoverOf[0], "rack-a rack-b")
	err = s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.JoinToken(ctx, "3")
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing token: %v, want ErrNotFound", err)
	}
}

func members(t *testing.T, s *store.Store) {
	insert := func(id string) error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertMember(ctx, &store.Member{ID: id, UserKey: "U" + id, JoinedAt: time.Unix(1, 0), RenewedAt: time.Unix(1, 0), ExpiresAt: time.Unix(2, 0),
				Scope: join.Scope{Role: join.Rackd, Site: "east", Name: "r1", Group: "rack-a"}})
		})
	}
	if err := insert("1"); err != nil {
		t.Fatal(err)
	}
	var taken *store.DuplicateError
	if err := insert("2"); !errors.As(err, &taken) || taken.Field != "member" || taken.Value != "r1" {
		t.Errorf("second of a name: %v, want a DuplicateError of member r1", err)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		m, err := tx.MemberNamed(ctx, join.Rackd, "r1")
		if err != nil {
			return err
		}
		m.RenewedAt, m.ExpiresAt, m.Certificate, m.CertificateBefore, m.RouteKey = time.Unix(8, 0), time.Unix(9, 0), "newest", "before", "route"
		if err := tx.RenewMember(ctx, m); err != nil {
			return err
		}
		got, err := tx.Member(ctx, m.ID)
		if err != nil || !got.RenewedAt.Equal(m.RenewedAt) || !got.ExpiresAt.Equal(m.ExpiresAt) || got.Certificate != "newest" || got.CertificateBefore != "before" || got.RouteKey != "route" {
			t.Errorf("renewed: %+v, %v", got, err)
		}
		return tx.EndMember(ctx, m.ID)
	})
	for what, f := range map[string]func(context.Context, *store.Tx) error{
		"renewing": func(ctx context.Context, tx *store.Tx) error {
			return tx.RenewMember(ctx, &store.Member{ID: "1", ExpiresAt: time.Unix(10, 0)})
		},
		"ending": func(ctx context.Context, tx *store.Tx) error { return tx.EndMember(ctx, "1") },
		"naming": func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.MemberNamed(ctx, join.Rackd, "r1")
			return err
		},
	} {
		if err := s.Update(t.Context(), f); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s a member that has ended: %v, want ErrNotFound", what, err)
		}
	}
	if err := insert("2"); err != nil {
		t.Errorf("the name of one that has ended: %v", err)
	}
	list, err := s.SiteMembers(t.Context(), "east")
	if err != nil || len(list) != 2 {
		t.Fatalf("members %v, error %v", list, err)
	}
	expect(t, "expires", list[0].ExpiresAt, time.Unix(9, 0).UTC())
	expect(t, "ended", !list[0].EndedAt.IsZero() && list[1].EndedAt.IsZero(), true)
	page, err := s.Members(t.Context(), "1", 10)
	if err != nil || !slices.EqualFunc(page, list[1:], func(a, b *store.Member) bool { return a.ID == b.ID && a.Scope.Name == b.Scope.Name }) {
		t.Errorf("page after 1: %v, error %v", page, err)
	}
}
