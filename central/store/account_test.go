package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// account is what tests of crashes write to: each transaction of it counts on, in two nodes at once, adds
// a node that has the count in its name, and deletes the one that is accountKeeps older. So whatever is
// there is what one transaction has left, or the half of one shows.
type account struct {
	name        string
	left, right string // UUIDs
	rng         *rand.Rand
	n           int // transactions that were asked for
}

const accountKeeps = 5

// newAccount returns an account; what it writes in addition to its count, seed says.
func newAccount(name string, seed uint64) *account {
	return &account{name: name, left: uuid.NewString(), right: uuid.NewString(), rng: rand.New(rand.NewPCG(seed, uint64(name[0])))}
}

// next writes the next transaction, large: with half a megabyte. One that has failed was not asked for, unless
// nobody knows.
func (a *account) next(ctx context.Context, s *store.Store, large bool) error {
	a.n++
	err := a.write(ctx, s, large)
	if err != nil && !errors.Is(err, store.ErrUnknown) {
		a.n--
	}
	return err
}

func (a *account) write(ctx context.Context, s *store.Store, large bool) error {
	text := strings.Repeat("x", a.rng.IntN(3000))
	if large {
		text = strings.Repeat("y", 500_000)
	}
	count := strconv.Itoa(a.n)
	return s.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		entry := storetest.NewNode(a.name + "-" + count)
		entry.Extra = map[string]any{"text": text}
		if err := tx.InsertNode(ctx, entry); err != nil {
			return err
		}
		for _, id := range []string{a.left, a.right} {
			if a.n == 1 {
				n := storetest.NewNode("")
				n.UUID, n.Description = id, count
				if err := tx.InsertNode(ctx, n); err != nil {
					return err
				}
				continue
			}
			n, err := tx.Node(ctx, id)
			if err != nil {
				return err
			}
			n.Description = count
			if err := tx.UpdateNode(ctx, n); err != nil {
				return err
			}
		}
		if a.n <= accountKeeps {
			return nil
		}
		old, err := tx.Node(ctx, a.name+"-"+strconv.Itoa(a.n-accountKeeps))
		if err != nil {
			return err
		}
		return tx.DeleteNode(ctx, old.UUID)
	})
}

// read returns the count that others see, by one of the two nodes.
func (a *account) read(ctx context.Context, s *store.Store, id string) (int, error) {
	n, err := s.Node(ctx, id)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(n.Description)
}

// look opens a file of SQLite as any program would and returns what is wrong with it, nothing if it holds
// of each account, by its name, the whole of one transaction that is not older than promised, and if the
// numbers of changes have no gap.
func look(t testing.TB, path string, accounts []*account, promised func(*account) int) (wrong []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ask := func(stmt string, args ...any) (answer string) {
		if err := db.QueryRowContext(t.Context(), stmt, args...).Scan(&answer); err != nil {
			answer = err.Error()
		}
		return answer
	}
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if sound := ask("PRAGMA integrity_check"); sound != "ok" {
		note("integrity_check: %s", sound)
	}
	for _, a := range accounts {
		left := ask("SELECT COALESCE((SELECT description FROM nodes WHERE uuid = ?), '0')", a.left)
		right := ask("SELECT COALESCE((SELECT description FROM nodes WHERE uuid = ?), '0')", a.right)
		n, err := strconv.Atoi(left)
		if err != nil {
			note("account %s: %s", a.name, left)
			continue
		}
		if right != left {
			note("account %s: half a transaction: %s in one node, %s in the other", a.name, left, right)
		}
		if n < promised(a) {
			note("account %s is at %d, %d was promised", a.name, n, promised(a))
		}
		if n > a.n {
			note("account %s is at %d, %d was the last that was asked for", a.name, n, a.n)
		}
		var want []string
		for i := max(1, n-accountKeeps+1); i <= n; i++ {
			want = append(want, a.name+"-"+strconv.Itoa(i))
		}
		got := ask("SELECT COALESCE(GROUP_CONCAT(name, ' '), '') FROM (SELECT name FROM nodes WHERE name LIKE ? ORDER BY length(name), name)", a.name+"-%")
		if got != strings.Join(want, " ") {
			note("account %s: half a transaction: at %d its nodes are %q", a.name, n, got)
		}
		// Its creation, an update and deletions of entries are told of.
		if rows := ask("SELECT COUNT(*) FROM changes WHERE object = ?", a.left); rows != left {
			note("account %s is at %s, with %s changes", a.name, left, rows)
		}
	}
	if gaps := ask(`SELECT COUNT(*) FROM (SELECT seq, 1 + length(phases) - length(replace(phases, ',', '')) AS takes,
		LAG(seq, 1, 0) OVER (ORDER BY seq) AS before FROM changes) WHERE seq - takes <> before`); gaps != "0" {
		note("%s gaps in the numbers of changes", gaps)
	}
	if newest := ask("SELECT (SELECT newest FROM change_numbers WHERE name = 'changes') - (SELECT COALESCE(MAX(seq), 0) FROM changes)"); newest != "0" {
		note("the counter of changes is %s ahead of them", newest)
	}
	return wrong
}
