package drivers

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// What a driver or an interface lacks is told once at the start, where a hardware type that wants it is enabled, and how bad it is.
func TestWhatIsMissingIsTold(t *testing.T) {
	lacks := func() error { return errors.New("the thing") }
	types := []driver.Type{{Name: "wol", Interfaces: map[string][]driver.Named{"deploy": {{Name: "direct"}, {Name: "ansible"}}}},
		{Name: "libvirt", Interfaces: map[string][]driver.Named{"deploy": {{Name: "direct"}, {Name: "ansible"}}}},
		{Name: "fake-hardware", Interfaces: map[string][]driver.Named{"deploy": {{Name: "iscsi"}}}}}
	for _, c := range []struct {
		need
		want string
	}{
		{need{of: "wol", all: true, lacks: lacks}, `level=WARN msg="a driver lacks what it needs; its nodes will fail until it is there" driver=wol lacks="the thing"`},
		{need{of: "libvirt", lacks: lacks}, `level=INFO msg="a driver lacks what some of its nodes need" driver=libvirt lacks="the thing"`},
		{need{kind: "deploy", of: "ansible", all: true, lacks: lacks}, `level=INFO msg="an interface lacks what it needs; nodes that use it will fail until it is there" deploy=ansible lacks="the thing"`},
		{need{kind: "deploy", of: "direct", lacks: lacks}, `level=INFO msg="an interface lacks what some nodes need" deploy=direct lacks="the thing"`},
		{need{kind: "deploy", of: "iscsi", lacks: lacks}, ""}, // fake hardware writes nothing
		{need{of: "snmp", all: true, lacks: lacks}, ""},       // it is not enabled
		{need{of: "wol", all: true, lacks: func() error { return nil }}, ""},
	} {
		var said bytes.Buffer
		tell(Options{Log: slog.New(slog.NewTextHandler(&said, nil))}, types, []need{c.need})
		_, told, _ := strings.Cut(strings.TrimSpace(said.String()), " ")
		if told != c.want {
			t.Errorf("%+v: %q, want %q", c.need, told, c.want)
		}
	}
}

// A rackd that is opened tells of what its own host lacks: this one has no folder with playbooks.
func TestOpenTellsWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		enabled string
		told    int
	}{{"redfish", 1}, {"fake-hardware", 0}} {
		var said bytes.Buffer
		s, err := Open(Options{Enabled: []string{c.enabled}, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if told := strings.Count(said.String(), "--ansible-dir"); told != c.told {
			t.Errorf("%s: told %d times, want %d: %s", c.enabled, told, c.told, said.String())
		}
	}
}

func TestWhatTheHostLacks(t *testing.T) {
	if err := lacksSocket(t.TempDir()); err != nil {
		t.Error(err)
	}
	at := filepath.Join(t.TempDir(), "none")
	if err := lacksSocket(at); err == nil || strings.Count(err.Error(), at) != 1 || !strings.Contains(err.Error(), "names no other host") {
		t.Errorf("%v", err)
	}
	none := errors.New("not found")
	err := lacksConverter(func(program string) (string, error) {
		if program == "qemu-img" {
			return "", none
		}
		return program, nil
	})
	if err == nil || !strings.Contains(err.Error(), "qemu-utils") || strings.Contains(err.Error(), "prlimit") {
		t.Errorf("%v", err)
	}
	if err := lacksConverter(func(program string) (string, error) { return program, nil }); err != nil {
		t.Error(err)
	}
}
