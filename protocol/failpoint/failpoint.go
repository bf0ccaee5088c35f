// Package failpoint names the places where a test may kill, stop or slow a daemon:
// each is a moment at which a crash must lose nothing and repeat nothing.
//
// It may import nothing of the project. A point that is not armed costs one atomic
// load. Points are armed by the environment, so that the programs under test are the
// programs that ship:
//
//	IRONYARD_FAILPOINTS='conductor.begun@deploy/deploy.write_image=kill'
//
// is a list, divided by semicolons, of NAME[@DETAIL]=ACTION. Actions: kill (SIGKILL to
// this process), stop (SIGSTOP to it), sleep:DURATION, print (a line
// "failpoint NAME@DETAIL" to stderr), and any of them with #N at its end: only the Nth
// time. DETAIL, when given, must be what the point was hit with.
package failpoint

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Env is the environment variable that arms points.
const Env = "IRONYARD_FAILPOINTS"

// Point is a named place. Safe for concurrent use.
type Point struct {
	name   string
	action atomic.Pointer[func(detail string)]
}

var (
	mu     sync.Mutex
	points = map[string]*Point{}
)

// New registers a point; a name is given once, when a package is initialised.
func New(name string) *Point {
	mu.Lock()
	defer mu.Unlock()
	if points[name] != nil {
		panic("failpoint " + name + " exists twice")
	}
	p := &Point{name: name}
	points[name] = p
	return p
}

// Names returns the names of all points that are linked into this program, in order.
func Names() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(points))
}

// Hit does what the point was armed with; detail says where it was hit.
func (p *Point) Hit(detail string) {
	if act := p.action.Load(); act != nil {
		(*act)(detail)
	}
}

// Armed reports whether Hit would do anything: ask before building a costly detail.
func (p *Point) Armed() bool { return p.action.Load() != nil }

// Set arms the point called name for a test in this process, until the returned
// function is called.
func Set(name string, act func(detail string)) (restore func(), err error) {
	mu.Lock()
	p := points[name]
	mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("no failpoint %q; there are %v", name, Names())
	}
	old := p.action.Swap(&act)
	return func() { p.action.Store(old) }, nil
}

// ArmFromEnv arms what the environment asks for. Daemons call it before anything else.
func ArmFromEnv() error { return Arm(os.Getenv(Env)) }

// Arm arms the points of a list as the package's comment describes it. Several
// entries for one point are all tried, in their order.
func Arm(list string) error {
	armed := map[*Point][]func(detail string){}
	for entry := range strings.SplitSeq(list, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		place, action, ok := strings.Cut(entry, "=")
		if !ok {
			return fmt.Errorf("failpoint %q: want NAME[@DETAIL]=ACTION", entry)
		}
		name, detail, narrowed := strings.Cut(place, "@")
		mu.Lock()
		p := points[name]
		mu.Unlock()
		if p == nil {
			return fmt.Errorf("no failpoint %q; there are %v", name, Names())
		}
		act, err := parse(action, name)
		if err != nil {
			return fmt.Errorf("failpoint %q: %w", entry, err)
		}
		armed[p] = append(armed[p], func(at string) {
			if !narrowed || at == detail {
				act(at)
			}
		})
	}
	for p, list := range armed {
		all := func(detail string) {
			for _, act := range list {
				act(detail)
			}
		}
		p.action.Store(&all)
	}
	return nil
}

func parse(action, name string) (func(detail string), error) {
	action, number, counted := strings.Cut(action, "#")
	verb, arg, _ := strings.Cut(action, ":")
	var act func(detail string)
	switch verb {
	case "kill":
		act = func(string) { signal(syscall.SIGKILL) }
	case "stop":
		act = func(string) { signal(syscall.SIGSTOP) }
	case "sleep":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return nil, err
		}
		act = func(string) { time.Sleep(d) }
	case "print":
		act = func(detail string) { fmt.Fprintf(os.Stderr, "failpoint %s@%s\n", name, detail) }
	default:
		return nil, fmt.Errorf("action %q: want kill, stop, print or sleep:DURATION", action)
	}
	if !counted {
		return act, nil
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("#%s: want a count from 1", number)
	}
	var hits atomic.Uint64
	return func(detail string) {
		if hits.Add(1) == n {
			act(detail)
		}
	}, nil
}

// signal sends sig to this process. SIGKILL does not come back; should it not be
// delivered at once, nothing more may happen here.
func signal(sig syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		panic(err)
	}
	if sig == syscall.SIGKILL {
		select {}
	}
}
