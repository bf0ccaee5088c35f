package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMarker(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{`{"uuid":"u-1","hostname":"web 0"}`, "IRONYARD-INSTANCE-UP hostname=web_0 uuid=u-1 root=/dev/vda"},
		{`{"name":"n"}`, "IRONYARD-INSTANCE-UP hostname=n uuid= root=/dev/vda"},
		{`{}`, "IRONYARD-INSTANCE-UP hostname= uuid= root=/dev/vda"},
	} {
		m, err := parseMetadata([]byte(c.data))
		if err != nil {
			t.Fatal(err)
		}
		if got := marker(m, "/dev/vda"); got != c.want {
			t.Errorf("%s: %q, want %q", c.data, got, c.want)
		}
	}
	if _, err := parseMetadata([]byte("{")); err == nil {
		t.Error("broken metadata accepted")
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add([]byte(`{"uuid":"u","hostname":"h"}`))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = parseMetadata(data) })
}

func TestBootTable(t *testing.T) {
	folder := t.TempDir()
	if said := bootTable(folder); said != "" {
		t.Errorf("without a table it says %q", said)
	}
	for name, text := range map[string]string{"initiator/initiator-name": "iqn.m\n", "target0/target-name": "iqn.t\n", "target0/ip-addr": "10.0.0.1\n", "target0/port": "3260\n", "target0/lun": "1\n", "target0/chap-name": "u\n"} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if said, want := bootTable(folder), "IRONYARD-INSTANCE-IBFT initiator=iqn.m target0=iqn.t,10.0.0.1:3260,lun=1,chap=u,reverse="; said != want {
		t.Errorf("it says %q, want %q", said, want)
	}
}
