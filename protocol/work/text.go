package work

import (
	"fmt"
	"unicode/utf8"
)

// MaxText bounds each text for people in documents and events, in bytes. What an agent or a BMC
// says has no bound of its own, and a document that is too large for the bus is never written.
const MaxText = 8 << 10

// Text is a text for people, cut in the middle where it is too long: its end often holds the
// cause.
func Text(s string) string {
	if len(s) <= MaxText {
		return s
	}
	const room = 64 // for the words between
	begin, end := (MaxText-room)/2, len(s)-(MaxText-room)/2
	for begin > 0 && !utf8.RuneStart(s[begin]) {
		begin--
	}
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	return fmt.Sprintf("%s … %d bytes left out … %s", s[:begin], end-begin, s[end:])
}

// Cut cuts the texts of e.
func (e *Event) Cut() {
	e.Error, e.Detail = Text(e.Error), Text(e.Detail)
	for i := range e.Before {
		e.Before[i].Detail = Text(e.Before[i].Detail)
	}
}
