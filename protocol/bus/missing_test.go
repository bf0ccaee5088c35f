package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// Who may make nothing is told what is not there, by its name.
func TestWhatIsNotThereIsNamed(t *testing.T) {
	srv, _ := bustest.Server(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := bus.Open(ctx, bustest.Connect(t, srv), "", bus.Settings{OpenOnly: true})
	if err == nil || !strings.Contains(err.Error(), "open bucket NODES: ") {
		t.Errorf("%v", err)
	}
}
