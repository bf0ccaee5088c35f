package view

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// A view that is not told that WORK has lost nothing is out of step after bus.Unchecked,
// whichever of its groups that concerns.
func TestViewThatIsNotCheckedIsOutOfStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(nil, keys{}, groups{"g", "h"}, forged{}, func(string) {}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err := v.InStep(); err != nil {
			t.Errorf("before anything is followed: %v", err)
		}
		v.checked["g"], v.checked["h"] = time.Now(), time.Now()
		time.Sleep(bus.Unchecked - time.Second)
		checker{group: "g", reader: reader{v: v}}.Checked(time.Now())
		if err := v.InStep(); err != nil {
			t.Errorf("in time: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := v.InStep(); err == nil || !strings.Contains(err.Error(), `"h"`) {
			t.Errorf("group h was not checked for %v: %v", bus.Unchecked+time.Second, err)
		}
		v.forget("h")
		v.noteChecked("h", time.Now()) // its last check was on the way
		if err := v.InStep(); err != nil {
			t.Errorf("without group h: %v", err)
		}
		time.Sleep(bus.Unchecked)
		if err := v.InStep(); err == nil {
			t.Error("nothing was checked for long")
		}
	})
}
