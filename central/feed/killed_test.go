package feed_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/feed"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/failpoint"
)

// What a replica, a child of the test, is told by its environment.
const (
	envReplica = "IRONYARD_TEST_REPLICA" // the database's address
	envApart   = "IRONYARD_TEST_APART"   // not empty: it shares no commits
)

// patience is that of the replicas with each other: none that lives takes so long.
const patience = 3 * time.Second

// replicaUntilKilled writes and runs a feed. It prints "new UUID" and "changed UUID" of each node
// once its transaction has ended, and "told SEQ" of what it publishes.
func replicaUntilKilled(address string) error {
	if err := failpoint.ArmFromEnv(); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := store.Open(ctx, address, store.Options{Apart: os.Getenv(envApart) != ""})
	if err != nil {
		return err
	}
	f := feed.New(feed.Config{Store: s, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Patience: patience, Publish: func(_ context.Context, list []*store.Change) error {
		for _, c := range list {
			fmt.Printf("told %d\n", c.Seq)
		}
		return nil
	}})
	failed := make(chan error)
	go func() { failed <- f.Run(ctx) }()
	for range 3 {
		go func() {
			for {
				if err := writeTwice(ctx, s); err != nil && !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrUnknown) {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func writeTwice(ctx context.Context, s *store.Store) error {
	n := storetest.NewNode("")
	if err := s.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNode(ctx, n) }); err != nil {
		return err
	}
	fmt.Printf("new %s\n", n.UUID)
	// On behalf of a request: it is told of.
	err := s.Update(store.WithCause(ctx, &store.Cause{}), func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		row.Description = "changed"
		return tx.UpdateNode(ctx, row)
	})
	if err == nil {
		fmt.Printf("changed %s\n", n.UUID)
	}
	return err
}

// replica is such a process, and what it has said.
type replica struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   strings.Builder

	mu           sync.Mutex
	made, change []string
	told         []int64
}

func startReplica(t *testing.T, address, points string, apart bool) *replica {
	t.Helper()
	r := &replica{cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), envReplica+"="+address, failpoint.Env+"="+points)
	if apart {
		r.cmd.Env = append(r.cmd.Env, envApart+"=1")
	}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.cmd.Stderr = &r.log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.hear(t, lines.Text())
		}
		r.cmd.Wait()
	}()
	t.Cleanup(r.kill)
	return r
}

func (r *replica) hear(t *testing.T, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	verb, what, _ := strings.Cut(line, " ")
	switch verb {
	case "new":
		r.made = append(r.made, what)
	case "changed":
		r.change = append(r.change, what)
	case "told":
		var seq int64
		if _, err := fmt.Sscan(what, &seq); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		r.told = append(r.told, seq)
	default:
		t.Errorf("a replica said %q", line)
	}
}

// writes is how many transactions it was told the end of.
func (r *replica) writes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.made) + len(r.change)
}

func (r *replica) kill() {
	r.cmd.Process.Kill()
	<-r.ended
}

// dies waits for the end of a replica, and kills it after enough writes unless it is to die by itself.
func (r *replica) dies(t *testing.T, itself bool, writes int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		select {
		case <-r.ended:
			if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("a replica ended by itself: %v\n%s", r.cmd.ProcessState, &r.log)
			}
			return
		case <-time.After(time.Millisecond):
		}
		if !itself && r.writes() >= writes || time.Now().After(end) {
			r.kill()
		}
	}
}

// TestKilledReplicas kills replicas that write, number and publish on one database, around their commits
// and their claims, and anywhere else. Then each change has a number, without gaps; who has followed all the time has seen each
// once and in order; all were published, and twice no more than what a replica had in its hands that was
// killed (decision 18).
func TestKilledReplicas(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		killReplicas(t, storetest.SQLite(t), older)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		postgres, err := storetest.StartPostgres(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := postgres.Stop(); err != nil {
				t.Error(err)
			}
		})
		killReplicas(t, postgres.Database(t), nil)
	})
}

// older adds changes without a number to a database of SQLite until done, as a program from before numbers
// came with the transaction.
func older(t *testing.T, address string, done <-chan struct{}) (added int) {
	db, err := sql.Open("sqlite", strings.Replace(address, "sqlite:", "file:", 1)+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Error(err)
		return 0
	}
	defer db.Close()
	for {
		select {
		case <-done:
			return added
		case <-time.After(5 * time.Millisecond):
		}
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), `INSERT INTO changes (uuid, seq, created_at, resource, object, node, event, phases, user_name, request_id, facts)
			VALUES (?, 0, 1, 'node', ?, '', 'power_set', 'start', '', '', '{}')`, store.NewID(), uuid.NewString())
		if err != nil {
			t.Errorf("an older program: %v", err)
			return added
		}
		added++
	}
}

func killReplicas(t *testing.T, address string, beside func(t *testing.T, address string, done <-chan struct{}) int) {
	const alive, deaths = 3, 8
	own := &replica{}
	s := storetest.Open(t, address)
	f, stop := run(t, feed.Config{Store: s, Patience: patience, Publish: func(_ context.Context, list []*store.Change) error {
		own.mu.Lock()
		defer own.mu.Unlock()
		for _, c := range list {
			own.told = append(own.told, c.Seq)
		}
		return nil
	}})
	w := follow(t, f, 0)

	done, extra := make(chan struct{}), make(chan int, 1)
	if beside == nil {
		extra <- 0
	} else {
		go func() { extra <- beside(t, address, done) }()
	}
	var all, living []*replica
	start := func(points string) {
		r := startReplica(t, address, points, len(all)%2 == 1)
		all, living = append(all, r), append(living, r)
	}
	kills := []func() string{
		func() string { return fmt.Sprintf("store.commit=kill#%d", 10+rand.IntN(60)) },
		func() string { return "feed.claimed=kill" },
		func() string { return fmt.Sprintf("store.committed=kill#%d", 10+rand.IntN(60)) },
		func() string { return "feed.told=kill" },
		func() string { return "" },
	}
	points := make([]string, 0, alive+deaths)
	for i := range alive + deaths {
		points = append(points, kills[i%len(kills)]())
	}
	for i := range alive {
		start(points[i])
	}
	for i := range deaths {
		living[0].dies(t, points[i] != "", 5+rand.IntN(60))
		living = living[1:]
		start(points[alive+i])
	}
	for _, r := range living {
		r.kill()
	}
	close(done)
	unnumbered := <-extra

	seen := followAll(t, s, w, unnumbered, all)
	var newest int64
	if len(seen) > 0 {
		newest = seen[len(seen)-1].Seq
	}
	until(t, "all changes are published", func() bool {
		at, err := s.Publication(t.Context())
		return err == nil && at.Told == newest
	})
	stop()
	checkTold(t, seen, append(all, own), len(all))
	stored, err := s.Changes(t.Context(), 0, len(seen)+10)
	if err != nil || len(stored) != len(seen) {
		t.Errorf("%d changes are stored, %d were seen, error %v", len(stored), len(seen), err)
	}
	if r, err := s.ChangeRange(t.Context()); err != nil || r.Newest != newest {
		t.Errorf("the newest number is %d, error %v, want %d", r.Newest, err, newest)
	}
}

// followAll follows until everything has come that there is, and checks it against what was written.
func followAll(t *testing.T, s *store.Store, w *feed.Follower, unnumbered int, all []*replica) (seen []*store.Change) {
	t.Helper()
	until(t, "all changes are numbered", func() bool {
		n, err := s.NumberChanges(t.Context(), 100)
		return err == nil && n.Count == 0
	})
	now, err := s.ChangeRange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for w.Seq() < now.Newest {
		seen = append(seen, collect(t, w, 1)...)
	}
	last, ids, actions, others := int64(0), map[string]bool{}, map[string][]string{}, 0
	for _, c := range seen {
		if c.Seq != last+c.Numbers() {
			t.Errorf("number %d follows %d", c.Seq, last)
		}
		if last = c.Seq; ids[c.UUID] {
			t.Errorf("change %s was seen twice", c.UUID)
		}
		ids[c.UUID] = true
		if c.Action == "power_set" {
			others++
			continue
		}
		actions[c.Object] = append(actions[c.Object], c.Action)
	}
	if others != unnumbered {
		t.Errorf("%d changes of another program were seen, it wrote %d", others, unnumbered)
	}
	nodes, err := s.Nodes(t.Context(), store.NodeQuery{Page: store.Page{Limit: 100_000}})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, n := range nodes {
		there[n.UUID] = true
		want := 1
		if n.Description != "" {
			want = 2
		}
		// With replicas that do not number what they write either may come first (decision 42).
		if got := strings.Join(actions[n.UUID], " "); want == 1 && got != "create" || want == 2 && got != "create update" && got != "update create" {
			t.Errorf("node %s, description %q: what was told of it is %q", n.UUID, n.Description, got)
		}
	}
	if len(actions) != len(nodes) {
		t.Errorf("changes of %d nodes, %d are there", len(actions), len(nodes))
	}
	writes := 0
	for _, r := range all {
		writes += r.writes()
		for _, id := range r.made {
			if !there[id] {
				t.Errorf("node %s is lost", id)
			}
		}
		for _, id := range r.change {
			if len(actions[id]) != 2 {
				t.Errorf("a change of node %s is lost", id)
			}
		}
	}
	t.Logf("%d processes were killed after %d transactions; %d changes, %d of them without a number at first", len(all), writes, len(seen), unnumbered)
	if writes == 0 {
		t.Error("nothing was written: the test shows nothing")
	}
	return seen
}

// checkTold checks what was published: everything, by each in order, and nothing twice but for what was in the hands of
// one that was killed.
func checkTold(t *testing.T, seen []*store.Change, all []*replica, killed int) {
	t.Helper()
	told := map[int64]int{}
	for _, r := range all {
		r.mu.Lock()
		last := int64(0)
		for _, seq := range r.told {
			if seq <= last {
				t.Errorf("one replica published %d after %d", seq, last)
			}
			last = seq
			told[seq]++
		}
		r.mu.Unlock()
	}
	places, again, before := 0, 0, false
	for _, c := range seen {
		if told[c.Seq] == 0 {
			t.Errorf("change %d was not published", c.Seq)
		}
		twice := told[c.Seq] > 1
		if twice {
			again++
		}
		if twice && !before {
			places++
		}
		before = twice
	}
	if places > killed {
		t.Errorf("%d changes in %d places were published more than once, for %d replicas that were killed", again, places, killed)
	}
	t.Logf("%d of %d changes in %d places were published more than once", again, len(seen), places)
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !met(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 seconds: %s", what)
		}
	}
}
