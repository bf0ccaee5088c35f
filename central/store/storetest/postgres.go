package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a temporary PostgreSQL cluster, reached by a Unix socket in its own
// folder. Its data outlives its processes and not the machine: fsync is off, unless it is asked for.
type Postgres struct {
	settings []string // besides those that every cluster has
	dir      string
	server   string // the program
	cmd      *exec.Cmd
	log      *bytes.Buffer
	done     chan struct{}
	n        atomic.Int64
	template func() error // makes the database that others are copies of
}

// StartPostgres starts a cluster with more settings than the usual ones, as "name=value"; the caller stops it. One
// serves a test binary.
func StartPostgres(ctx context.Context, settings ...string) (*Postgres, error) {
	return startPostgres(ctx, append([]string{"fsync=off", "shared_buffers=32MB"}, settings...)...)
}

// StartDurablePostgres starts a cluster that syncs each commit to the disk, as one in
// production does.
func StartDurablePostgres(ctx context.Context) (*Postgres, error) {
	return startPostgres(ctx, "fsync=on", "synchronous_commit=on", "shared_buffers=128MB")
}

func startPostgres(ctx context.Context, settings ...string) (*Postgres, error) {
	initdb, server, err := findPostgres()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ironyard-pg")
	if err != nil {
		return nil, err
	}
	p := &Postgres{settings: settings, dir: dir, server: server, log: new(bytes.Buffer)}
	p.template = sync.OnceValue(p.makeTemplate)
	if err := p.init(initdb); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

func findPostgres() (initdb, server string, err error) {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, string(bytes.TrimSpace(out)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	dirs = append(dirs, versions...)
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, d := range dirs {
		initdb, server = filepath.Join(d, "initdb"), filepath.Join(d, "postgres")
		if isFile(initdb) && isFile(server) {
			return initdb, server, nil
		}
	}
	return "", "", errors.New("PostgreSQL is missing, which the store's tests need: apt-get install postgresql")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// command returns a command that runs in the cluster's folder, and not as root, which
// PostgreSQL refuses.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.SysProcAttr = p.dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		uid, gid := nobody()
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	return c
}

func (p *Postgres) init(initdb string) error {
	if os.Getuid() == 0 {
		uid, gid := nobody()
		if err := os.Chown(p.dir, int(uid), int(gid)); err != nil {
			return err
		}
	}
	if out, err := p.command(initdb, "-D", p.data(), "-U", "ironyard", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (p *Postgres) start(ctx context.Context) error {
	args := []string{"-D", p.data(), "-k", p.dir, "-c", "listen_addresses=", "-c", "max_connections=90"}
	for _, setting := range p.settings {
		args = append(args, "-c", setting)
	}
	p.cmd = p.command(p.server, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { cmd.Wait(); close(done) }(p.cmd, p.done)
	for {
		c, err := pgx.Connect(ctx, p.url("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-p.done:
			return fmt.Errorf("postgres ended at once: %s", p.log)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("postgres did not answer: %w", err), p.Stop())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// nobody returns the user that PostgreSQL runs as when the tests run as root.
func nobody() (uid, gid uint32) {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			id, err1 := strconv.ParseUint(u.Uid, 10, 32)
			group, err2 := strconv.ParseUint(u.Gid, 10, 32)
			if err1 == nil && err2 == nil {
				return uint32(id), uint32(group)
			}
		}
	}
	return 65534, 65534
}

func (p *Postgres) url(database string) string {
	return fmt.Sprintf("postgres://ironyard@/%s?host=%s", database, p.dir)
}

// PID is the process of the server, whose children serve the connections.
func (p *Postgres) PID() int { return p.cmd.Process.Pid }

// Stop ends the cluster and removes it.
func (p *Postgres) Stop() error {
	p.cmd.Process.Signal(syscall.SIGQUIT) // immediate: nothing is worth keeping
	<-p.done
	return os.RemoveAll(p.dir)
}

// Restart ends the cluster, with SIGINT (fast: it says good-bye) or SIGQUIT (immediate:
// it crashes), keeps it away for a while, and starts it again with what it had committed.
func (p *Postgres) Restart(ctx context.Context, how os.Signal, away time.Duration) error {
	if err := p.cmd.Process.Signal(how); err != nil {
		return err
	}
	<-p.done
	select {
	case <-ctx.Done():
	case <-time.After(away):
	}
	return p.start(ctx)
}

// templateName is the database that Database copies.
const templateName = "template_ironyard"

func (p *Postgres) makeTemplate() error {
	ctx := context.Background()
	if err := createDatabase(ctx, p.url("postgres"), templateName, ""); err != nil {
		return err
	}
	return migrate(ctx, p.url(templateName))
}

// Database creates a database for t that has its tables and returns its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	if err := p.template(); err != nil {
		t.Fatal(err)
	}
	return p.create(t, templateName)
}

// Copy creates a database for t that holds what another holds, to which no one is connected, and returns its URL.
func (p *Postgres) Copy(t testing.TB, of string) string {
	t.Helper()
	config, err := pgx.ParseConfig(of)
	if err != nil {
		t.Fatal(err)
	}
	return p.create(t, config.Database)
}

// Empty creates a database for t without tables and returns its URL.
func (p *Postgres) Empty(t testing.TB) string {
	t.Helper()
	return p.create(t, "")
}

func (p *Postgres) create(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", p.n.Add(1))
	if err := createDatabase(t.Context(), p.url("postgres"), name, template); err != nil {
		t.Fatal(err)
	}
	return p.url(name)
}

// createDatabase creates a database, as a copy of another if one is named.
func createDatabase(ctx context.Context, url, name, template string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	stmt := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize()
	if template != "" {
		stmt += " TEMPLATE " + pgx.Identifier{template}.Sanitize()
	}
	_, err = c.Exec(ctx, stmt)
	return err
}
