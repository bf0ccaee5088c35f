package ansible

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var (
	_ driver.Deploy = Interface{}
	_ driver.InBand = Interface{}
	_ direct.Writer = (*Plays)(nil)
)

// folder has a playbook, a folder with another, a key, and a program that stands for Ansible's on the path.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "books", "racks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"deploy.yaml", "racks/deploy.yaml", "racks/other.yaml", "key"} {
		if err := os.WriteFile(filepath.Join(dir, "books", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "books", "out")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	return filepath.Join(dir, "books")
}

func TestWhatIsRefused(t *testing.T) {
	dir := folder(t)
	instance := func() map[string]any {
		return map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32)}
	}
	for name, c := range map[string]struct {
		driver, instance map[string]any
		folder           string
		want             string
	}{
		"as it is":          {nil, instance(), dir, ""},
		"all fields":        {map[string]any{fieldUser: "x", fieldKey: "key", fieldPath: "racks", fieldPlaybook: "other.yaml", fieldInterpreter: "/usr/bin/python3"}, instance(), dir, ""},
		"absolute paths":    {map[string]any{fieldKey: dir + "/key", fieldPath: dir + "/racks"}, instance(), dir, ""},
		"no image":          {nil, nil, dir, "Some parameters were missing. Missing are: ['instance_info.image_source']"},
		"no folder":         {nil, instance(), "", "--ansible-dir"},
		"no such folder":    {nil, instance(), dir + "/none", "--ansible-dir"},
		"no such playbook":  {map[string]any{fieldPlaybook: "none.yaml"}, instance(), dir, fieldPlaybook},
		"another folder":    {map[string]any{fieldPath: "/etc"}, instance(), dir, fieldPath},
		"a way out":         {map[string]any{fieldPath: "../.."}, instance(), dir, fieldPath},
		"a key elsewhere":   {map[string]any{fieldKey: "/etc/hostname"}, instance(), dir, fieldKey},
		"a link elsewhere":  {map[string]any{fieldKey: "out"}, instance(), dir, fieldKey},
		"a folder as key":   {map[string]any{fieldKey: "racks"}, instance(), dir, fieldKey},
		"a user's option":   {map[string]any{fieldUser: "-oProxyCommand=x"}, instance(), dir, fieldUser},
		"a shell's python":  {map[string]any{fieldInterpreter: "/bin/sh -c 'id >/tmp/owned' #"}, instance(), dir, fieldInterpreter},
		"a line's python":   {map[string]any{fieldInterpreter: "/usr/bin/python3\nid"}, instance(), dir, fieldInterpreter},
		"an option":         {map[string]any{fieldInterpreter: "/-c"}, instance(), dir, fieldInterpreter},
		"a relative python": {map[string]any{fieldInterpreter: "python"}, instance(), dir, fieldInterpreter},
		"another playbook":  {map[string]any{"ansible_clean_playbook": "x"}, instance(), dir, "the ramdisk's agent cleans"},
		"advanced hints": {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "root_device": map[string]any{"size": ">= 8"}}, dir,
			"Ansible-deploy does not support advanced root device hints based on oslo.utils operators."},
		"a template in a hint": {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "root_device": map[string]any{"model": "{{ lookup('pipe', 'id') }}"}}, dir,
			"ironic.root_device_hints have the mark of a template"},
		"a template behind an escape": {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "root_device": map[string]any{"model": "s== %7B%7Bx%7D%7D"}}, dir,
			"ironic.root_device_hints have the mark of a template"},
		"a template in a field of the image": {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_tags": []any{map[string]any{"{% x %}": 1}}}, dir,
			"ironic.image have the mark of a template"},
		"other marks for templates": {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_x": "#jinja2: variable_start_string: '<'\n<x"}, dir,
			"ironic.image have the mark of a template"},
		"a template as user":   {map[string]any{fieldUser: "{{lookup('pipe','id')}}"}, instance(), dir, fieldUser},
		"a template as python": {map[string]any{fieldInterpreter: "/{{ lookup('pipe', 'id') }}"}, instance(), dir, fieldInterpreter},
		"a partition image":    {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_type": "partition", "root_gb": 8}, dir, "whole disks only"},
	} {
		r := drivertest.NewRig()
		r.Node.DriverInfo, r.Node.InstanceInfo = c.driver, c.instance
		err := New(direct.New(direct.Settings{}), NewPlays(Settings{Folder: c.folder})).Validate(r.Node)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	p := NewPlays(Settings{Folder: dir})
	r := drivertest.NewRig()
	r.Node.InstanceInfo = instance()
	if err := New(direct.New(direct.Settings{}), p).Validate(r.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "ansible-core") {
		t.Errorf("without the program: %v", err)
	}
	if p.Ready() == nil || NewPlays(Settings{}).Ready() != nil {
		t.Error("a rackd with playbooks and without the program starts, or one without playbooks does not")
	}
}

// What is written for Ansible is looked at once more: a deploy may have been accepted before rackds refused templates.
func TestNoTemplateIsWritten(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.InstanceInfo = map[string]any{"image_source": "http://192.0.2.1/i"}
	r.Node.TargetRAID = map[string]any{"logical_disks": []any{map[string]any{"size_gb": "{{ lookup('pipe', 'id') }}"}}}
	dir := t.TempDir()
	_, err := write(t.Context(), r.Task(networkboot.IPXE()), dir, at{"192.0.2.9", 22}, driver.DiskImage{URLs: []string{"http://192.0.2.1/i"}})
	if left, _ := os.ReadDir(dir); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "raid_config") || len(left) > 0 {
		t.Errorf("%v, and %d files were written", err, len(left))
	}
}

// A ramdisk that answers no connection at all is waited for as one that refuses it. The wait is in the checkpoint.
func TestASilentRamdiskIsWaitedFor(t *testing.T) {
	r := drivertest.NewRig()
	p := NewPlays(Settings{})
	p.answersWithin, p.port = 50*time.Millisecond, deaf(t)
	var h handle
	// As on the bus, nothing is written for who waits no more.
	task := r.Task(networkboot.IPXE())
	task.Record = impatient{task.Record}
	if up, err := p.listens(t.Context(), task, &h, "127.0.0.1"); up || err != nil || h.Since.IsZero() || !strings.Contains(r.HandleText(), "since") {
		t.Errorf("%t, %v; the handle is %q", up, err, r.HandleText())
	}
	h.Since = h.Since.Add(-2 * sshWithin)
	if _, err := p.listens(t.Context(), task, &h, "127.0.0.1"); err == nil || !strings.Contains(err.Error(), "takes no SSH connection") {
		t.Errorf("after its time: %v", err)
	}
}

// impatient is a recorder that writes nothing once its context has ended.
type impatient struct{ driver.Recorder }

func (i impatient) SaveHandle(ctx context.Context, h any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return i.Recorder.SaveHandle(ctx, h)
}

// deaf returns a port of loopback at which connections are neither taken nor refused: the places of those that wait are taken.
func deaf(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*unix.SockaddrInet4).Port
	for range 8 {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 100*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("it takes all connections")
	return 0
}

// When rackd ends its playbooks end, and what they were given is gone by then: rackd's process ends right after.
func TestNothingIsLeftOfAPlaybookWhenRackdEnds(t *testing.T) {
	books := folder(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(books), program), []byte("#!/bin/sh\nexec /bin/sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, dir := NewPlays(Settings{Folder: books}), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "configdrive"), []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	one, err := p.start(&drivertest.Fence{}, place{dir, func() {}}, files{folder: books, playbook: filepath.Join(books, "deploy.yaml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.open["w1"] = one
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files are left: %v", err)
	}
}

func TestWhatAnsiblePrints(t *testing.T) {
	var o play
	for _, text := range []string{"PLAY [ironic] ****", "TASK [write the image] ******", `fatal: [n]: FAILED! => {"msg": "no disk"}`, "RUNNING HANDLER [sync] ***", "PLAY RECAP ***", ""} {
		o.line(text)
	}
	if len(o.tasks) != 2 || o.tasks[0] != "write the image" || o.tasks[1] != "sync" || !strings.HasPrefix(o.errors, "fatal: ") || o.last != "PLAY RECAP ***" {
		t.Errorf("%+v", &o)
	}
}

// What is printed comes in pieces of any size. Of a line that is too long the beginning is kept.
func TestOutputIsReadByLines(t *testing.T) {
	var got []string
	l := lines{take: func(s string) { got = append(got, s) }}
	long := strings.Repeat("x", maxLine+10)
	for _, piece := range []string{"a", "b\nc\n", "\n", long, "y\nd\n", "rest"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("%d of %d, %v", n, len(piece), err)
		}
	}
	if want := []string{"ab", "c", "", long[:maxLine], "d"}; !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}
