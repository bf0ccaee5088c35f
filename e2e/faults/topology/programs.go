package topology

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs are the daemons as files.
type Programs struct {
	Central, Rackd, NATS, Fleet string
	initdb, postgres            string
}

// Build builds the daemons into dir.
func Build(ctx context.Context, dir string) (Programs, error) {
	p := Programs{Central: filepath.Join(dir, "central"), Rackd: filepath.Join(dir, "rackd"), NATS: filepath.Join(dir, "nats-server"),
		Fleet: filepath.Join(dir, "ironyard-fleet")}
	for file, pkg := range map[string]string{p.Central: "github.com/ironyard/ironyard/central", p.Rackd: "github.com/ironyard/ironyard/rackd",
		p.NATS: "github.com/nats-io/nats-server/v2", p.Fleet: "github.com/ironyard/ironyard/ops/virtual/fleet/ironyard-fleet"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", file, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("build %s: %w: %s", pkg, err, out)
		}
	}
	var err error
	p.initdb, p.postgres, err = findPostgres()
	return p, err
}

func findPostgres() (initdb, server string, err error) {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, string(bytes.TrimSpace(out)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for _, d := range append(dirs, versions...) {
		initdb, server = filepath.Join(d, "initdb"), filepath.Join(d, "postgres")
		if _, err := os.Stat(initdb); err != nil {
			continue
		}
		if _, err := os.Stat(server); err == nil {
			return initdb, server, nil
		}
	}
	return "", "", fmt.Errorf("PostgreSQL is missing: apt-get install postgresql")
}
