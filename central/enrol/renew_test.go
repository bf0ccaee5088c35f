package enrol_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// copyOf is a member's folder as it is now: a backup, or what a thief took.
func copyOf(t *testing.T, m *membership.Member) *membership.Member {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(m.Dir)); err != nil {
		t.Fatal(err)
	}
	c, err := membership.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A certificate that the member has left behind renews nothing, however long it is good for.
func TestOnlyTheNewestCertificatesRenew(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	stolen := copyOf(t, m)
	for day := range 3 {
		w.now.Store(int64(time.Duration(day+1) * 24 * time.Hour))
		if _, err := m.Renew(t.Context()); err != nil {
			t.Fatalf("renewal %d of the rightful member: %v", day, err)
		}
	}
	if _, err := stolen.Renew(t.Context()); refusal(err) != http.StatusForbidden {
		t.Errorf("a certificate of three renewals ago: %v, want 403", err)
	}
	if _, err := m.Renew(t.Context()); err != nil {
		t.Errorf("the rightful member, afterwards: %v", err)
	}
}

// What was recorded of a renewal, by a proxy that ends TLS, brings nothing when it is sent again.
func TestRecordedRenewalsAreWorthless(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	var recorded [][]byte
	inner := w.handler
	w.through(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		recorded = append(recorded, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		inner.ServeHTTP(rw, r)
	}, m)
	if _, err := m.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, body := range recorded {
		rw := httptest.NewRecorder()
		inner.ServeHTTP(rw, httptest.NewRequest(http.MethodPost, join.RenewPath, bytes.NewReader(body)))
		if rw.Code == http.StatusOK || bytes.Contains(rw.Body.Bytes(), []byte("user_jwt")) {
			t.Errorf("recorded request %d of a renewal, sent again, is answered %d with a grant", i, rw.Code)
		}
	}
	if _, err := m.Renew(t.Context()); err != nil {
		t.Errorf("the rightful member, afterwards: %v", err)
	}
}

// A member whose answer got lost asks again with the certificate that it still has, as often as
// it has to.
func TestRenewalWhoseAnswerWasLost(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	straight := m.Central.URL
	inner := w.handler
	w.through(func(rw http.ResponseWriter, r *http.Request) {
		kept := httptest.NewRecorder()
		inner.ServeHTTP(kept, r)
		if kept.Code == http.StatusOK {
			panic(http.ErrAbortHandler)
		}
		rw.WriteHeader(kept.Code)
		rw.Write(kept.Body.Bytes())
	}, m)
	for range 2 {
		if _, err := m.Renew(t.Context()); err == nil || refusal(err) != 0 {
			t.Fatalf("the answer was not lost: %v", err)
		}
	}
	m.Central.URL = straight
	for i := range 3 {
		if _, err := m.Renew(t.Context()); err != nil {
			t.Errorf("renewal %d after the lost ones: %v", i, err)
		}
	}
}

// Of two that renew from copies of one folder, one is refused, whichever comes first, and
// operators learn of it.
func TestTwoWithOneFolderAreTold(t *testing.T) {
	for _, thiefFirst := range []bool{false, true} {
		w := newWorld(t, storetest.SQLite(t))
		m, err := w.join(w.token(rackA), "")
		if err != nil {
			t.Fatal(err)
		}
		thief := copyOf(t, m)
		counted := 0
		w.auth.OnMisuse(func(role join.Role) {
			if role == join.Rackd {
				counted++
			}
		})
		var told bytes.Buffer
		h := w.auth.Handler(slog.New(slog.NewTextHandler(&told, nil)))
		w.through(h.ServeHTTP, m)
		w.through(h.ServeHTTP, thief)
		order := []*membership.Member{m, thief}
		if thiefFirst {
			order = []*membership.Member{thief, m}
		}
		refused := 0
		for range 4 { // the first with C0; the second with C0, the one before; the first with what is neither
			for _, who := range order {
				if _, err := who.Renew(t.Context()); refusal(err) == http.StatusForbidden {
					refused++
				}
			}
		}
		if refused == 0 || counted != refused {
			t.Errorf("thief first %t: %d renewals refused, %d counted", thiefFirst, refused, counted)
		}
		if n := strings.Count(told.String(), "ALARM"); n != 1 || !strings.Contains(told.String(), "name=r1") {
			t.Errorf("thief first %t: %d alarms within a minute in the log, want one that names the member:\n%s", thiefFirst, n, told.String())
		}
		audit, err := w.store.Audit(t.Context(), store.AuditQuery{Page: store.Page{Limit: 10}, Action: "ironyard:member:renew"})
		if err != nil || len(audit) != 1 || audit[0].Object != m.ID || audit[0].Result != store.Denied || audit[0].Client != "127.0.0.1" {
			t.Errorf("thief first %t: audit %+v, %v", thiefFirst, audit, err)
		}
	}
}

// Clocks of members play no part in renewals; those of replicas may differ by minutes.
func TestRenewalWithClocksThatDiffer(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []time.Duration{3 * time.Hour, -5 * time.Minute, 12 * time.Hour} { // central's against the member's
		w.now.Store(int64(off))
		if _, err := m.Renew(t.Context()); err != nil {
			t.Errorf("central's clock is %s from the member's: %v", off, err)
		}
	}
	for off, want := range map[time.Duration]bool{5 * time.Minute: true, -5 * time.Minute: true, 3 * time.Hour: false, -3 * time.Hour: false} {
		// One replica makes the challenges, the other has to believe in them.
		other, err := enrol.Open(t.Context(), w.store, w.key, func() time.Time { return w.clock().Add(off) })
		if err != nil {
			t.Fatal(err)
		}
		here, there := w.handler, other.Handler(slog.New(slog.DiscardHandler))
		asked := 0
		w.through(func(rw http.ResponseWriter, r *http.Request) {
			asked++
			if asked%2 == 1 {
				here.ServeHTTP(rw, r)
			} else {
				there.ServeHTTP(rw, r)
			}
		}, m)
		_, err = m.Renew(t.Context())
		if want && err != nil || !want && (refusal(err) != http.StatusUnauthorized || !strings.Contains(err.Error(), "clocks")) || asked > 4 {
			t.Errorf("replicas whose clocks differ by %s: %v after %d requests, want success %t", off, err, asked, want)
		}
	}
}

// A program from before challenges is told to be upgraded, and gets nothing.
func TestRenewalWithoutAChallenge(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	inner := w.handler
	w.through(func(rw http.ResponseWriter, r *http.Request) {
		kept := httptest.NewRecorder()
		inner.ServeHTTP(kept, r)
		rw.WriteHeader(kept.Code)
		text := struct {
			Error string `json:"error"`
		}{}
		json.Unmarshal(kept.Body.Bytes(), &text)
		json.NewEncoder(rw).Encode(text)
	}, m)
	if _, err := m.Renew(t.Context()); refusal(err) != http.StatusUnauthorized || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("%v, want 401 that says to upgrade", err)
	}
}

// The request by which a member joined is worthless once the member has renewed.
func TestRecordedJoiningIsWorthless(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	inner := w.handler
	var recorded []byte
	token := w.token(rackA)
	token.URL = w.listen(func(rw http.ResponseWriter, r *http.Request) {
		recorded, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(recorded))
		inner.ServeHTTP(rw, r)
	})
	m, err := w.join(token, "")
	if err != nil {
		t.Fatal(err)
	}
	m.Central.URL = w.url
	if _, err := m.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	rw := httptest.NewRecorder()
	inner.ServeHTTP(rw, httptest.NewRequest(http.MethodPost, join.EnrolPath, bytes.NewReader(recorded)))
	if rw.Code != http.StatusForbidden {
		t.Errorf("the joining, sent again: %d %s", rw.Code, rw.Body)
	}
	if _, err := m.Renew(t.Context()); err != nil {
		t.Errorf("the member, afterwards: %v", err)
	}
}

// A member that joined before central kept its certificates renews with its newest, and no other.
func TestMembersOfBeforeRenew(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	stolen := copyOf(t, m)
	w.now.Store(int64(10 * 24 * time.Hour))
	if _, err := m.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = w.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Member(ctx, m.ID)
		if err != nil {
			return err
		}
		row.Certificate, row.CertificateBefore = "", ""
		return tx.RenewMember(ctx, row)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stolen.Renew(t.Context()); refusal(err) != http.StatusForbidden {
		t.Errorf("a certificate of ten days before the newest: %v, want 403", err)
	}
	for range 2 {
		if _, err := m.Renew(t.Context()); err != nil {
			t.Errorf("the newest: %v", err)
		}
	}
}

// through has a member reach central through h.
func (w *world) through(h http.HandlerFunc, m *membership.Member) {
	w.Helper()
	m.Central.URL = w.listen(h)
}
