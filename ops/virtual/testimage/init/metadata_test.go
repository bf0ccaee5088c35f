package main

import "testing"

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
