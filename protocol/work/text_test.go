package work

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, short := range []string{"", "no", strings.Repeat("x", MaxText)} {
		if Text(short) != short {
			t.Errorf("a text of %d bytes was cut", len(short))
		}
	}
	for _, each := range []string{"x", "é", "€", "😀"} {
		for lead := range 4 {
			long := strings.Repeat("a", lead) + strings.Repeat(each, 1<<16) + " the cause"
			got := Text(long)
			if len(got) > MaxText || !utf8.ValidString(got) || !strings.HasSuffix(got, " the cause") || !strings.Contains(got, "bytes left out") {
				t.Errorf("%d bytes of %q became %d bytes, valid %v, %q", len(long), each, len(got), utf8.ValidString(got), got[len(got)-20:])
			}
		}
	}
}

// History and errors are read by people who may see no secret.
func TestTextsHoldNoPasswordOfAnAddress(t *testing.T) {
	said := "update_firmware: GET https://user:hunter2@files.example/a.bin: 404 " + strings.Repeat("x", MaxText) + " (http://other:hunter3@files.example:8080/b)"
	e := Event{Error: said, Phase: said, Detail: said, Before: []Line{{Phase: said, Detail: said}}}
	e.Cut()
	for _, text := range []string{Text(said), e.Error, e.Phase, e.Detail, e.Before[0].Phase, e.Before[0].Detail} {
		if strings.Contains(text, "hunter") || !strings.Contains(text, "https://user:******@files.example/a.bin: 404") || !strings.HasSuffix(text, "http://other:******@files.example:8080/b)") {
			t.Errorf("%.200s … %s", text, text[len(text)-60:])
		}
	}
}

// Texts are shown on terminals. What a BMC or an agent says must not command one, nor turn the order of what is read.
func TestTextsCommandNoTerminal(t *testing.T) {
	const said = "one\n\ttwo \x1b[2J\x1b]0;x\x07\u009b31m\u202egnp\u2066\r\x00\x7f end"
	got := Text(said)
	if strings.ContainsAny(got, "\x1b\x07\u009b\u202e\u2066\r\x00\x7f") || !strings.HasPrefix(got, "one\n\ttwo ") || !strings.HasSuffix(got, " end") {
		t.Errorf("%q", got)
	}
	e := Event{Error: said, Phase: said, Before: []Line{{Phase: said, Detail: said}}}
	e.Cut()
	for _, text := range []string{e.Error, e.Phase, e.Before[0].Phase, e.Before[0].Detail} {
		if strings.ContainsRune(text, '\x1b') {
			t.Errorf("%q", text)
		}
	}
}
