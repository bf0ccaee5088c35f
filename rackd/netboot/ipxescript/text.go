package ipxescript

import (
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// maxLine bounds one text; a console has 80 columns and a few lines to spare.
const maxLine = 400

// line reduces text to words that iPXE prints and does nothing else with: no line
// ends, no control characters, no ${…}, no || or &&, no comments, and no word that
// could pass for an option.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r <= ' ' || r > '~':
			return ' '
		case strings.ContainsRune(`$|&#\`, r):
			return '_'
		}
		return r
	}, s)
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = strings.TrimLeft(w, "-")
	}
	s = strings.Join(words, " ")
	if len(s) > maxLine {
		s = s[:maxLine] + "..."
	}
	return s
}

// Line reduces text to one line of words that no boot loader reads as its own, outside of quotation.
func Line(s string) string { return line(s) }

// word reduces text to one kernel parameter or URL.
func word(s string) string { return agentapi.Unspoiled(s) }
