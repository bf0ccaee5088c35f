package work

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/seal"
)

// MaxText bounds each text for people in documents and events, in bytes. What an agent or a BMC
// says has no bound of its own, and a document that is too large for the bus is never written.
const MaxText = 8 << 10

// Text is a text for people, cut in the middle where it is too long: its end often holds the
// cause. What would command the terminal on which it is shown is a blank. A password in an address is masked: more people read history
// and errors than may see secrets.
func Text(s string) string {
	s = seal.MaskAddresses("", s, agentapi.Masked)
	if strings.ContainsFunc(s, commands) {
		s = strings.Map(func(r rune) rune {
			if commands(r) {
				return ' '
			}
			return r
		}, s)
	}
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

// commands reports whether a terminal does something else at a character than show it: control characters but for ends of lines
// and tabs, and those that turn the order of what is read.
func commands(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// Cut cuts the texts of e, and makes them fit to be shown.
func (e *Event) Cut() {
	e.Error, e.Phase, e.Detail = Text(e.Error), Text(e.Phase), Text(e.Detail)
	for i := range e.Before {
		e.Before[i].Phase, e.Before[i].Detail = Text(e.Before[i].Phase), Text(e.Before[i].Detail)
	}
}
