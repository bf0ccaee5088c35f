package versions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/busview"
	"github.com/ironyard/ironyard/ops/embeddedbus"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// edit is a change of a source file: old stands there once.
type edit struct{ file, old, new string }

// later is what the next version adds: central tells racks a node's colour, and that of a work, and rackds note one
// in its checkpoint.
var later = []edit{
	{"protocol/node/node.go", "type Document struct {\n", "type Document struct {\n\tColour string `json:\"colour,omitempty\"`\n"},
	{"protocol/node/document.go", "func (d *Document) AppendSigned(b []byte, key *seal.Key) ([]byte, error) {\n", "func (d *Document) AppendSigned(b []byte, key *seal.Key) ([]byte, error) {\n\td.Colour = \"green\"\n"},
	{"protocol/work/work.go", "type Document struct {\n", "type Document struct {\n\tColour string `json:\"colour,omitempty\"`\n"},
	{"protocol/work/work.go", "type Checkpoint struct {\n", "type Checkpoint struct {\n\tColour string `json:\"colour,omitempty\"`\n"},
	{"protocol/work/codec.go", "func (d *Document) Body() ([]byte, error) {\n", "func (d *Document) Body() ([]byte, error) {\n\tif d.Checkpoint.Colour = \"blue\"; d.Owner == \"\" { // central writes it\n\t\td.Colour, d.Checkpoint.Colour = \"red\", \"\"\n\t}\n"},
}

// build builds central and rackd, with edits, and returns their folder.
func build(t *testing.T, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if texts[path] == "" {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(raw)
		}
		if strings.Count(texts[path], e.old) != 1 {
			t.Fatalf("%s does not have %q once", e.file, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, strings.ReplaceAll(path[len(root)+1:], "/", "_"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir+"/", "./central", "./rackd")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return dir
}

// colours are what a document of WORK holds of the new fields, and who has written it.
type colours struct {
	Owner      string `json:"owner"`
	Colour     string `json:"colour"`
	Checkpoint struct {
		Step   string `json:"step"`
		Colour string `json:"colour"`
	} `json:"checkpoint"`
}

// Programs of two versions work with one another, in either order. A work that goes from a rackd of one version to a rackd of the
// other keeps what either has written.
func TestEitherOrder(t *testing.T) {
	if os.Getenv("IRONYARD_VERSIONS") == "" {
		t.Skip("NOT RUN: builds the programs twice and waits for leases; run `make versions`. What one document keeps is tested in protocol/node, protocol/work and rackd/view")
	}
	today, next := build(t, nil), build(t, later)
	for _, c := range []struct {
		name                   string
		central, first, second string
		work, checkpoint, node string // the colours after the takeover
	}{
		{"central is upgraded first", next, today, today, "red", "", "green"},
		{"central first, then the other rackd", next, next, today, "red", "blue", "green"},
		{"rackds are upgraded first", today, next, next, "", "blue", ""},
		{"one rackd first", today, next, today, "", "blue", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.central)
			r.rackd("first", c.first)
			id := r.node()
			r.owns(id, "first") // before there is another
			r.rackd("second", c.second)
			r.kill("first")
			got := r.owns(id, "second")
			if got.Colour != c.work || got.Checkpoint.Colour != c.checkpoint {
				t.Errorf("after the takeover the work has the colours %q and %q, want %q and %q", got.Colour, got.Checkpoint.Colour, c.work, c.checkpoint)
			}
			var node struct{ Node struct{ Colour string } }
			if r.read(bus.NodesBucket, id, &node); node.Node.Colour != c.node {
				t.Errorf("the node's document has the colour %q, want %q", node.Node.Colour, c.node)
			}
			if n, err := r.o.Wait(t.Context(), id, provision.Manageable); err != nil || n.LastError != "" {
				t.Errorf("the flow ended as %+v, %v", n, err)
			}
		})
	}
}

// rig is a central and its bus.
type rig struct {
	t      *testing.T
	dir    string
	bus    *embeddedbus.Bus
	o      *operator.Operator
	rackds map[string]*exec.Cmd
	places map[string]*busview.Place
}

func start(t *testing.T, programs string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), rackds: map[string]*exec.Cmd{}, places: map[string]*busview.Place{}}
	const token = "a token of this test"
	b, err := embeddedbus.Start(t.Context(), embeddedbus.Options{Dir: filepath.Join(r.dir, "bus"), Listen: "127.0.0.1:0", Token: token, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	r.bus = b
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	group, err := key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"token": token, "key": key.Text(), "group.key": group.Text()} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := b.Connect("versions", token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for _, name := range []string{bus.NodesBucket, bus.WorkBucket, bus.AliveBucket} {
		if r.places[name], err = busview.Open(conn, "", name); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	database := "sqlite:" + filepath.Join(r.dir, "central.db")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(programs, "central"), "migrate", "--database", database).CombinedOutput(); err != nil {
		t.Fatalf("central migrate: %v: %s", err, out)
	}
	r.run("central", filepath.Join(programs, "central"), "serve", "--database", database, "--key-file", filepath.Join(r.dir, "key"), "--bus", b.URL(),
		"--bus-token-file", filepath.Join(r.dir, "token"), "--listen", address, "--observe", "")
	if r.o, err = operator.New("http://" + address); err != nil {
		t.Fatal(err)
	}
	r.until("central answers", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	})
	return r
}

// run runs a program until the test ends.
func (r *rig) run(name, path string, args ...string) *exec.Cmd {
	r.t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if r.t.Failed() {
			r.t.Logf("%s said:\n%s", name, said.String())
		}
	})
	return cmd
}

// rackd starts a rackd and waits until it lives.
func (r *rig) rackd(name, programs string) {
	r.t.Helper()
	r.rackds[name] = r.run(name, filepath.Join(programs, "rackd"), "--name", name, "--bus", r.bus.URL(), "--bus-token-file", filepath.Join(r.dir, "token"),
		"--key-file", filepath.Join(r.dir, "group.key"), "--data", filepath.Join(r.dir, name), "--observe", "", "--drivers", "fake-hardware")
	r.until("rackd "+name+" lives", func() error {
		_, err := r.places[bus.AliveBucket].Show(r.t.Context(), bus.MemberKey("", name))
		return err
	})
}

func (r *rig) kill(name string) {
	r.rackds[name].Process.Kill()
}

// node enrols a node whose cleaning takes long enough for a takeover, and begins it.
func (r *rig) node() string {
	r.t.Helper()
	var id string
	r.until("a node is enrolled", func() (err error) {
		id, err = r.o.Enrol(r.t.Context(), operator.Machine{Driver: "fake-hardware"})
		return err
	})
	r.until("it is taken in", func() error { return r.o.Ask(r.t.Context(), id, "manage", nil) })
	if _, err := r.o.Wait(r.t.Context(), id, provision.Manageable); err != nil {
		r.t.Fatal(err)
	}
	wait := map[string]any{"interface": "power", "step": "wait", "args": map[string]any{"seconds": 5}}
	if err := r.o.Provision(r.t.Context(), id, map[string]any{"target": "clean", "clean_steps": []any{wait, wait}}); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// owns waits until a rackd has written the node's work during a step, and returns that.
func (r *rig) owns(id, name string) (c colours) {
	r.t.Helper()
	r.until("rackd "+name+" has the work", func() error {
		c = colours{}
		r.read(bus.WorkBucket, id, &c)
		if c.Owner == "" || c.Checkpoint.Step == "" || c.Owner != name {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	return c
}

func (r *rig) read(place, key string, into any) {
	r.t.Helper()
	r.until("a document of "+place, func() error {
		raw, err := r.places[place].Show(r.t.Context(), key)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, into)
	})
}

func (r *rig) until(what string, try func() error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("not within a minute: %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
