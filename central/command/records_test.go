package command

import (
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/daemon"
)

// A negative number is refused, since it means "all" further on, as 0 does here.
func TestNumbersOfRecords(t *testing.T) {
	for _, c := range []struct {
		r     records
		words string
	}{
		{records{KeepHistory: -1}, "--keep-history -1"},
		{records{KeepWorks: -time.Hour}, "--keep-works -1h0m0s"},
	} {
		var cfg daemon.Config
		if err := c.r.set(&cfg); err == nil || !strings.Contains(err.Error(), c.words) || cfg.KeepHistory != 0 || cfg.KeepWorks != 0 {
			t.Errorf("%+v: %v, and the configuration has %d and %s", c.r, err, cfg.KeepHistory, cfg.KeepWorks)
		}
	}
	cfg := daemon.Config{}
	if err := (&records{KeepHistory: 300, KeepWorks: time.Hour}).set(&cfg); err != nil || cfg.KeepHistory != 300 || cfg.KeepWorks != time.Hour {
		t.Errorf("%v, %d, %s", err, cfg.KeepHistory, cfg.KeepWorks)
	}
	if err := (&records{}).set(&cfg); err != nil || cfg.KeepHistory >= 0 || cfg.KeepWorks >= 0 {
		t.Errorf("0 keeps all: %v, %d, %s", err, cfg.KeepHistory, cfg.KeepWorks)
	}
}
