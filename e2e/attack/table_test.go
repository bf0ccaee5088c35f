package attack

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"text/tabwriter"
)

// line is one attempt and what became of it.
type line struct {
	entry                               int
	attacker, attempt, reached, allowed string
	over                                bool
}

var table struct {
	mu    sync.Mutex
	lines []line
}

// judge writes a line of the table and fails the test if more was reached than is allowed.
func judge(t *testing.T, l line) {
	t.Helper()
	table.mu.Lock()
	table.lines = append(table.lines, l)
	table.mu.Unlock()
	say := t.Logf
	if l.over {
		say = t.Errorf
	}
	say("%s, %s: reached %s; allowed: %s (entry %d)", l.attacker, l.attempt, l.reached, l.allowed, l.entry)
}

// The attackers.
const (
	onTheNetwork = "stranger, network"
	atTheAPI     = "stranger, API"
	tenant       = "tenant"
	stolenRackd  = "stolen rackd"
	stolenServer = "stolen site server"
	fullDisk     = "full disk"
	oddAgent     = "odd agent"
)

func printTable() {
	table.mu.Lock()
	defer table.mu.Unlock()
	if len(table.lines) == 0 {
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 1, 1, ' ', 0)
	fmt.Fprintln(w, "attacker\t| entry\t| attempt\t| reached\t| allowed\t| verdict")
	over := 0
	for _, l := range table.lines {
		verdict := "held"
		if l.over {
			verdict = "OVER"
			over++
		}
		fmt.Fprintf(w, "%s\t| %d\t| %s\t| %s\t| %s\t| %s\n", l.attacker, l.entry, l.attempt, l.reached, l.allowed, verdict)
	}
	w.Flush()
	fmt.Printf("%d attempts, %d reached more than is allowed\n", len(table.lines), over)
}

func TestMain(m *testing.M) {
	code := m.Run()
	printTable()
	if y := shared.yard; y != nil {
		y.close()
		if code == 0 {
			os.RemoveAll(y.dir)
		} else {
			fmt.Fprintln(os.Stderr, "what is left of the run is in", y.dir)
		}
	}
	os.Exit(code)
}
