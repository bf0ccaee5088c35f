package container

import (
	"encoding/base64"
	"log/slog"
	"strings"
	"unicode"
)

// Bounds on what is kept of what is printed.
const (
	maxLine   = 300 // bytes of a line
	maxLogged = 1000
	maxSaid   = 4 << 10
)

// nothing stands for words where there are none.
const nothing = "it says nothing"

// lines takes what is printed. It puts each line into the log, up to maxLogged of them, and keeps the last ones. Of long lines it keeps the
// beginning. It is for one goroutine.
type lines struct {
	log    *slog.Logger
	hide   []string // what no line may hold
	part   []byte   // of the line that has not ended
	said   []string
	bytes  int // of said
	logged int
}

// Write takes a piece of output.
func (l *lines) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '\n' || b == '\r':
			l.end()
		case len(l.part) < maxSaid: // a secret in it is hidden whole
			l.part = append(l.part, b)
		}
	}
	return len(p), nil
}

// end ends a line.
func (l *lines) end() {
	text := string(l.part)
	l.part = l.part[:0]
	for _, h := range l.hide {
		text = strings.ReplaceAll(text, h, "…")
	}
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	if text == "" {
		return
	}
	l.said, l.bytes = append(l.said, text), l.bytes+len(text)
	for l.bytes > maxSaid {
		l.bytes -= len(l.said[0])
		l.said = l.said[1:]
	}
	switch l.logged++; {
	case l.logged <= maxLogged:
		l.log.Info("podman says", "line", text)
	case l.logged == maxLogged+1:
		l.log.Warn("podman says more than the log takes; its further lines are left out")
	}
}

// String is the end of what was said, in one line.
func (l *lines) String() string {
	if len(l.said) == 0 {
		return nothing
	}
	return strings.Join(l.said, "; ")
}

// hidden are the words of a secret that no line may hold.
func hidden(basic string) []string {
	list := []string{basic}
	if plain, err := base64.StdEncoding.DecodeString(basic); err == nil {
		if _, password, has := strings.Cut(string(plain), ":"); has && password != "" {
			list = append(list, password)
		}
	}
	return list
}
