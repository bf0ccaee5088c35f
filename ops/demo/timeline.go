package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// timeline collects what happens to each machine and prints it as it happens.
type timeline struct {
	out   io.Writer
	tty   bool
	start time.Time
	names []string

	mu    sync.Mutex
	lines map[string][]entry
	bars  map[string]string // progress of now
	drawn bool
}

type entry struct {
	at     time.Duration
	what   string
	detail string
}

func newTimeline(out io.Writer, tty bool, names []string) *timeline {
	return &timeline{out: out, tty: tty, start: time.Now(), names: names, lines: map[string][]entry{}, bars: map[string]string{}}
}

// add prints a line for a machine.
func (t *timeline) add(name, what, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := entry{time.Since(t.start), what, detail}
	t.lines[name] = append(t.lines[name], e)
	t.erase()
	fmt.Fprintf(t.out, "%7.1fs  %-8s %-16s %s\n", e.at.Seconds(), name, what, detail)
	t.draw()
}

// progress shows how far a write is, on a terminal only.
func (t *timeline) progress(name, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bars[name] = text
	if t.tty {
		t.erase()
		t.draw()
	}
}

func (t *timeline) erase() {
	if t.drawn {
		fmt.Fprint(t.out, "\r\x1b[K")
		t.drawn = false
	}
}

func (t *timeline) draw() {
	var parts []string
	for _, n := range t.names {
		if b := t.bars[n]; b != "" {
			parts = append(parts, n+" "+b)
		}
	}
	if t.tty && len(parts) > 0 {
		fmt.Fprint(t.out, "          "+strings.Join(parts, "   "))
		t.drawn = true
	}
}

// table prints the machines side by side: each phase with its seconds.
func (t *timeline) table() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	var phases []string
	took := map[string]map[string]string{}
	for _, n := range t.names {
		took[n] = map[string]string{}
		last := time.Duration(0)
		for i, e := range t.lines[n] {
			if i > 0 {
				took[n][e.what] = fmt.Sprintf("%.1f s", (e.at - last).Seconds())
			} else {
				took[n][e.what] = fmt.Sprintf("%.1f s", e.at.Seconds())
			}
			last = e.at
			phases = appendNew(phases, e.what)
		}
		took[n]["in all"] = fmt.Sprintf("%.1f s", last.Seconds())
		took[n][toReboot] = t.between(n, "write", "reboot")
		took[n][toInstance] = t.between(n, "power on", "instance up")
	}
	fmt.Fprintf(t.out, "\n%-18s", "phase")
	for _, n := range t.names {
		fmt.Fprintf(t.out, "%12s", n)
	}
	for _, p := range append(phases, "in all", toInstance, toReboot) {
		fmt.Fprintf(t.out, "\n%-18s", p)
		for _, n := range t.names {
			fmt.Fprintf(t.out, "%12s", took[n][p])
		}
	}
	fmt.Fprintln(t.out)
}

// toReboot is the row of the time from the image's last byte to the order to boot the instance.
const toReboot = "write to reboot"

// toInstance is the row of the time from power on to the instance's words on its console.
const toInstance = "power on to up"

// between is the time from the last event of one phase to the first of another.
func (t *timeline) between(name, from, to string) string {
	var began time.Duration
	for _, e := range t.lines[name] {
		switch e.what {
		case from:
			began = e.at
		case to:
			return fmt.Sprintf("%.1f s", (e.at - began).Seconds())
		}
	}
	return "-"
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}
