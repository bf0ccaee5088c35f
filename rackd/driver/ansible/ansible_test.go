package ansible

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
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
		"a relative python": {map[string]any{fieldInterpreter: "python"}, instance(), dir, fieldInterpreter},
		"another playbook":  {map[string]any{"ansible_clean_playbook": "x"}, instance(), dir, "the ramdisk's agent cleans"},
		"advanced hints": {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "root_device": map[string]any{"size": ">= 8"}}, dir,
			"Ansible-deploy does not support advanced root device hints based on oslo.utils operators."},
		"a partition image": {nil, map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_type": "partition", "root_gb": 8}, dir, "whole disks only"},
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
