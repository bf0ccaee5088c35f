package console

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
)

// A tenant may have many sessions, and a BMC of their own that takes nothing. What they paste into each waits at central. It is
// bounded.
func TestAPasteIntoASilentBMCCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newViewer()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		taken := 0
		for v.take(ctx, make([]byte, maxMessage)) == nil {
			taken += maxMessage
		}
		if most := 64*ask.ConsoleTyped + maxMessage; taken > most {
			t.Errorf("%d bytes wait at central, want %d at most", taken, most)
		}
		if got := len(<-v.queue); got > ask.ConsoleTyped {
			t.Errorf("a piece has %d bytes", got)
		}
	})
}
