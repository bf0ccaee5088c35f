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
