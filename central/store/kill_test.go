package store_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/failpoint"
)

// effort is how many times as much the tests of crashes do, by IRONYARD_CRASHES, and seed what they
// begin with, by IRONYARD_CRASH_SEED or a new one.
func effort(t *testing.T) int { return max(1, int(number(t, "IRONYARD_CRASHES"))) }

func seed(t *testing.T) uint64 {
	n := number(t, "IRONYARD_CRASH_SEED")
	if n == 0 {
		n = 1 + rand.Uint64N(1<<32)
	}
	t.Logf("IRONYARD_CRASH_SEED=%d", n)
	return n
}

func number(t *testing.T, name string) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: want a number", name, text)
	}
	return n
}

// What a process that is to be killed is told by its environment.
const (
	envWriter   = "IRONYARD_TEST_WRITER" // the database's file
	envAccounts = "IRONYARD_TEST_ACCOUNTS"
	envSeed     = "IRONYARD_TEST_SEED"
)

// writeUntilKilled is the process that is to be killed: it writes to accounts and prints of each
// transaction, once it was told of its end, the account's number and its count.
func writeUntilKilled(path string) error {
	if err := failpoint.ArmFromEnv(); err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := store.Open(ctx, "sqlite:"+path, store.Options{})
	if err != nil {
		return err
	}
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, text := range []string{"wal_autocheckpoint(" + strconv.Itoa(20+rng.IntN(200)) + ")", "cache_size(" + strconv.Itoa(12+rng.IntN(300)) + ")"} {
		if err := s.Pragma(ctx, text); err != nil {
			return err
		}
	}
	failed := make(chan error)
	for i, text := range strings.Fields(os.Getenv(envAccounts)) {
		a := newAccount(string(rune('a'+i)), seed)
		// UUID,UUID,COUNT
		parts := strings.Split(text, ",")
		a.left, a.right = parts[0], parts[1]
		if a.n, err = strconv.Atoi(parts[2]); err != nil {
			return err
		}
		go func() {
			for {
				if err := a.next(ctx, s, a.n%40 == 20); err != nil {
					failed <- err
					return
				}
				fmt.Printf("%d %d\n", i, a.n) // one write
			}
		}()
	}
	return <-failed
}

// death is how a process ends.
type death struct {
	points string        // failpoints that are armed
	after  time.Duration // else: how long after its first transaction it is killed
}

// writeAndDie runs such a process until it is dead and returns the last count of each account that it
// was told of.
func writeAndDie(t *testing.T, path string, accounts []*account, seed uint64, d death) (acknowledged []int) {
	t.Helper()
	var list []string
	for _, a := range accounts {
		list = append(list, fmt.Sprintf("%s,%s,%d", a.left, a.right, a.n))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envWriter+"="+path, envAccounts+"="+strings.Join(list, " "), envSeed+"="+strconv.FormatUint(seed, 10), failpoint.Env+"="+d.points)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	patience := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer patience.Stop()
	for _, a := range accounts {
		acknowledged = append(acknowledged, a.n)
	}
	begun := sync.OnceFunc(func() {
		if d.points == "" {
			time.AfterFunc(d.after, func() { cmd.Process.Kill() })
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		begun()
		var i, n int
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &i, &n); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		acknowledged[i] = n
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended by itself: %v\n%s", cmd.ProcessState, &log)
	}
	return acknowledged
}

// TestKilled kills a process that writes, at any moment and around its commits, one after another on one
// database: whatever it was told of is there, and nothing is half there.
func TestKilled(t *testing.T) {
	t.Parallel()
	first := seed(t)
	rng := rand.New(rand.NewPCG(first, 2))
	for round := range effort(t) {
		path := filepath.Join(t.TempDir(), "central.db")
		var accounts []*account
		for i := range 6 {
			accounts = append(accounts, newAccount(string(rune('a'+i)), 0))
		}
		total := 0
		for i := range 6 {
			d := death{after: time.Duration(rng.Int64N(int64(120 * time.Millisecond)))}
			if i%3 == 2 {
				d = death{points: fmt.Sprintf("store.%s=kill#%d", []string{"commit", "committed"}[rng.IntN(2)], 20+rng.IntN(100))}
			}
			acknowledged := writeAndDie(t, path, accounts, first+uint64(10*round+i), d)
			for k, a := range accounts {
				total += max(0, acknowledged[k]-a.n)
				a.n += 1 << 20 // what was asked for last is not known
			}
			for _, text := range look(t, path, accounts, func(a *account) int { return acknowledged[index(accounts, a)] }) {
				t.Errorf("seed %d, round %d, process %d (%+v): %s", first, round, i, d, text)
			}
			if t.Failed() {
				return
			}
			stand(t, path, accounts)
		}
		t.Logf("%d transactions were acknowledged by processes that were killed", total)
		if total == 0 {
			t.Error("no transaction was acknowledged: the test shows nothing")
		}
	}
}

func index(accounts []*account, a *account) int {
	for i := range accounts {
		if accounts[i] == a {
			return i
		}
	}
	panic("no such account")
}

// stand sets the accounts to where the database is.
func stand(t *testing.T, path string, accounts []*account) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, a := range accounts {
		if a.n, err = a.read(t.Context(), s, a.left); err != nil {
			a.n = 0
		}
	}
}
