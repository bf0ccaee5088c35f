package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/protocol/seal"
)

// What is wrong with a command line is said before the database is opened: opening it makes and
// migrates it.
func TestCommandLinesAreCheckedBeforeTheDatabase(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"enrolment without a site":          {func(c *Config) { c.EnrolListen = "127.0.0.1:0" }, "every site needs a name"},
		"a site that is no name for NATS":   {func(c *Config) { c.EnrolListen, c.Sites = "127.0.0.1:0", []sites.Site{{Name: "e*st"}} }, "e*st"},
		"an address to enrol at":            {func(c *Config) { c.EnrolListen, c.Sites = "127.0.0.1", []sites.Site{{Name: "east"}} }, "--enrol-listen"},
		"an address to observe at":          {func(c *Config) { c.Observe = "9090" }, "--observe"},
		"a port that is none":               {func(c *Config) { c.Listen = "127.0.0.1:http-alt-x" }, "--listen"},
		"a certificate that is none":        {func(c *Config) { c.TLSCert, c.TLSKey = junk, junk }, "--tls-cert"},
		"credentials for the bus of nobody": {func(c *Config) { c.BusCreds = junk }, "--bus-creds"},
		"two sites of one name":             {func(c *Config) { c.Sites = []sites.Site{{Name: "a"}, {Name: "a"}} }, "twice"},
		"a strategy without its file":       {func(c *Config) { c.Access.Strategies = []string{"http_basic"} }, "htpasswd"},
	} {
		file := filepath.Join(t.TempDir(), "central.db")
		cfg := Config{Database: "sqlite:" + file, Listen: "127.0.0.1:0", Key: key, BusURL: "tls://127.0.0.1:1", Sites: []sites.Site{{}}, Log: slog.New(slog.DiscardHandler)}
		c.change(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := Run(ctx, cfg, func(Info) { cancel() })
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", what, err, c.says)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: the database was opened (%v)", what, err)
		}
	}
}
