package strangers

import (
	"strings"
	"sync"
	"time"
)

const (
	// lineEvery is how long a count of lines lasts.
	lineEvery = time.Minute
	// maxMachines is how many machines, or addresses, may write a line in a minute.
	maxMachines = 4096
	// maxName is how much of a name that a stranger has chosen is logged, in bytes.
	maxName = 64
	// maxCause is how much of an error that quotes it, in bytes.
	maxCause = 160
)

// LineCount counts the lines that one door logs.
type LineCount struct {
	gate *Gate
	door string

	mu        sync.Mutex
	ends      time.Time // of the minute
	strangers int
	by        map[string]int
	unwritten int
}

// Lines begins a count for a door, whose name says in the log where lines were left out.
func (g *Gate) Lines(door string) *LineCount {
	return &LineCount{gate: g, door: door, by: map[string]int{}}
}

// OfStranger reports whether a line may be logged of a peer that has shown nothing.
func (l *LineCount) OfStranger() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn()
	l.strangers++
	return l.may(l.strangers <= l.gate.Budget.Lines)
}

// OfMachine reports whether a line may be logged of a machine that is known, by its MAC address or UUID, or of an address.
func (l *LineCount) OfMachine(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn()
	if n, there := l.by[name]; there || len(l.by) < maxMachines {
		l.by[name] = n + 1
	}
	n, there := l.by[name]
	return l.may(there && n <= l.gate.MachineLines)
}

// turn begins another minute. Its caller holds mu.
func (l *LineCount) turn() {
	now := time.Now()
	if now.Before(l.ends) {
		return
	}
	if l.unwritten > 0 {
		l.gate.log.Warn("lines about strangers, or about machines that wrote many, are not in the log one by one", "of", l.door, "lines", l.unwritten)
	}
	clear(l.by)
	l.strangers, l.unwritten, l.ends = 0, 0, now.Add(lineEvery)
}

func (l *LineCount) may(written bool) bool {
	if !written {
		l.unwritten++
		l.gate.refused(Lines)
	}
	return written
}

// Name is what is logged of a name that a stranger has chosen.
func Name(s string) string { return cut(s, maxName) }

// Cause is what is logged of an error that may quote such a name.
func Cause(err error) string { return cut(err.Error(), maxCause) }

func cut(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "?")
	}
	return strings.ToValidUTF8(s[:most], "?") + "..."
}
