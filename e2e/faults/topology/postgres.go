package topology

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
)

const databasePort = 5432

// Database is the PostgreSQL of central. Its data survives its process, not the machine.
type Database struct {
	*process.Process
	url  string
	host *network.Host
}

func newDatabase(p Programs, dir string, host *network.Host) (*Database, error) {
	who, err := postgresUser()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "postgres")
	data := filepath.Join(home, "data")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chown(home, int(who.Uid), int(who.Gid)); err != nil {
		return nil, err
	}
	initdb := exec.Command(p.initdb, "-D", data, "-U", "ironyard", "-A", "trust", "-E", "UTF8", "--no-sync")
	initdb.Dir, initdb.Env = home, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGKILL}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	trust := fmt.Sprintf("local all all trust\nhost all all %s trust\n", network.Prefix)
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(trust), 0o644); err != nil {
		return nil, err
	}
	return &Database{host: host, url: fmt.Sprintf("postgres://ironyard@%s/postgres", host.At(databasePort)),
		Process: process.New(process.Spec{Name: "postgres", Host: host, Path: p.postgres, Dir: home, User: who, Env: []string{"LC_ALL=C.UTF-8"},
			// A smart stop would wait for central to go away.
			StopWith: syscall.SIGINT, Log: filepath.Join(dir, "postgres.log"),
			Args: []string{"-D", data, "-k", home, "-c", "listen_addresses=" + host.Addr.String(), "-c", "fsync=off",
				"-c", "max_connections=60", "-c", "shared_buffers=32MB", "-c", "log_line_prefix=%m "}})}, nil
}

// postgresUser is whom PostgreSQL runs as: it refuses root.
func postgresUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf(`neither user "postgres" nor user "nobody" exists, and PostgreSQL does not run as root`)
}

// Connect opens a connection to the database; the caller closes it.
func (d *Database) Connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return d.host.DialContext(ctx, network, address)
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// answers reports whether the database answers.
func (d *Database) answers(ctx context.Context) error {
	c, err := d.Connect(ctx)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}
