package halt

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A disk or an interface that hangs in the kernel delays the machine's end, and no more. The log names what hung.
func TestTheMachineEndsWhateverHangs(t *testing.T) {
	kernel := machine
	t.Cleanup(func() { machine = kernel })
	slow := time.Second
	for what, c := range map[string]struct {
		disk, link bool // what hangs
		takes      time.Duration
		says       []string
	}{
		"nothing":   {false, false, 2 * slow, nil},
		"a disk":    {true, false, syncFor + slow, []string{"a disk hangs"}},
		"interface": {false, true, slow + quietFor, []string{"a network interface does not go down"}},
		"both":      {true, true, syncFor + quietFor, []string{"a disk hangs", "a network interface does not go down"}},
	} {
		for _, how := range []How{Reboot, PowerOff} {
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				log := slog.New(slog.NewTextHandler(&logs, nil))
				hangs, began, refused := make(chan struct{}), time.Now(), errors.New("refused")
				defer close(hangs)
				does := func(ever bool) {
					if ever {
						<-hangs
						return
					}
					time.Sleep(slow)
				}
				var asked []How
				machine.sync = func() { does(c.disk) }
				machine.silence = func(*slog.Logger) { does(c.link) }
				machine.reboot = func(how int) error {
					asked = append(asked, How(how))
					return refused
				}
				if err := Now(log, how); !errors.Is(err, refused) || len(asked) != 1 || asked[0] != how {
					t.Errorf("%s hangs: the kernel was asked for %v, want %v; error %v", what, asked, how, err)
				}
				if took := time.Since(began); took != c.takes {
					t.Errorf("%s hangs: it took %s, want %s", what, took, c.takes)
				}
				if n := strings.Count(logs.String(), "\n"); n != len(c.says) {
					t.Errorf("%s hangs: logged:\n%s", what, &logs)
				}
				for _, s := range c.says {
					if !strings.Contains(logs.String(), s) {
						t.Errorf("%s hangs: logged:\n%s", what, &logs)
					}
				}
			})
		}
	}
}

// Sync says whether all is written: a machine is switched off by its BMC after that.
func TestSyncOfADiskThatHangs(t *testing.T) {
	kernel := machine
	t.Cleanup(func() { machine = kernel })
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logs, nil))
		hangs, began := make(chan struct{}), time.Now()
		machine.sync = func() { <-hangs }
		if Sync(log) || time.Since(began) != syncFor || !strings.Contains(logs.String(), "a disk hangs") {
			t.Errorf("after %s: %s", time.Since(began), &logs)
		}
		close(hangs)
		logs.Reset()
		machine.sync = func() { time.Sleep(time.Second) }
		if !Sync(log) || logs.Len() > 0 {
			t.Errorf("a disk that takes its time: %s", &logs)
		}
	})
}
