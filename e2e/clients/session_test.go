package clients

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/e2e/clients/debian"
)

//go:embed session.py
var sessionProgram []byte

// session is a process that runs commands of the baremetal program one after another.
type session struct {
	t        *testing.T
	system   *debian.System
	endpoint string
	commands []string // that the program has
	ran      map[string]bool
	in       *json.Encoder
	out      *json.Decoder
}

func newSession(t *testing.T, endpoint string) *session {
	t.Helper()
	system := debian.New(t)
	cmd := system.Command(t, "python3", system.Put(t, "session.py", sessionProgram))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (Debian's package python3-ironicclient has the commands)", err)
	}
	t.Cleanup(func() { in.Close(); io.Copy(io.Discard, out); cmd.Wait() })
	s := &session{t: t, system: system, endpoint: endpoint, ran: map[string]bool{}, in: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out))}
	if err := s.out.Decode(&s.commands); err != nil {
		t.Fatalf("the program did not list its commands: %v", err)
	}
	return s
}

// has reports whether the program has a command: an older one lacks the newest.
func (s *session) has(command string) bool { return slices.Contains(s.commands, command) }

// result of a command.
type result struct {
	Status         int
	Stdout, Stderr string
}

// try runs a command, with options of the program itself, whatever comes of it.
func (s *session) try(options []string, args ...string) result {
	s.t.Helper()
	s.note(args)
	options = append([]string{"--os-auth-type", "none", "--os-endpoint", s.endpoint}, options...)
	if err := s.in.Encode(append(options, args...)); err != nil {
		s.t.Fatalf("baremetal %s: %v", strings.Join(args, " "), err)
	}
	var r result
	if err := s.out.Decode(&r); err != nil {
		s.t.Fatalf("baremetal %s: %v", strings.Join(args, " "), err)
	}
	return r
}

// note remembers which command the arguments are for: the longest that fits.
func (s *session) note(args []string) {
	longest := ""
	for _, c := range s.commands {
		words := strings.Fields(c)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) && len(c) > len(longest) {
			longest = c
		}
	}
	s.ran[longest] = true
}

// run runs a command that must succeed and returns what it prints.
func (s *session) run(args ...string) string {
	s.t.Helper()
	r := s.try(nil, args...)
	if r.Status != 0 {
		s.t.Fatalf("baremetal %s: status %d\n%s", strings.Join(args, " "), r.Status, r.Stderr)
	}
	return r.Stdout
}

// refused runs a command that must fail with a message that has text in it. The client
// is told not to try again on a conflict.
func (s *session) refused(text string, args ...string) {
	s.t.Helper()
	if r := s.try([]string{"--max-retries", "0"}, args...); r.Status == 0 || !strings.Contains(r.Stderr, text) {
		s.t.Errorf("baremetal %s: status %d and %q, want a failure that says %q", strings.Join(args, " "), r.Status, r.Stderr, text)
	}
}

// object runs a command that prints one thing, list one that prints many.
func (s *session) object(args ...string) map[string]any {
	s.t.Helper()
	return decode[map[string]any](s, args)
}

func (s *session) list(args ...string) []map[string]any {
	s.t.Helper()
	rows := decode[[]map[string]any](s, args)
	for i, row := range rows {
		rows[i] = make(map[string]any, len(row))
		for column, v := range row {
			rows[i][columnName(column)] = v
		}
	}
	return rows
}

// columnName is the name of a column of a list as newer programs print it: the field's name, where
// those of before 6.0 have a heading.
func columnName(heading string) string {
	switch heading = strings.ToLower(heading); heading {
	case "supported driver(s)", "bios setting name":
		return "name"
	}
	return heading
}

func decode[T any](s *session, args []string) T {
	s.t.Helper()
	var v T
	out := s.run(append(args, "-f", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		s.t.Fatalf("baremetal %s -f json: %v\n%s", strings.Join(args, " "), err, out)
	}
	return v
}

// want fails unless the thing that args show has each of the values, "field=value".
func (s *session) want(values []string, args ...string) {
	s.t.Helper()
	got := s.object(args...)
	for _, v := range values {
		field, value, _ := strings.Cut(v, "=")
		if text := brief(got[field]); text != value {
			s.t.Errorf("baremetal %s: %s is %s, want %s", strings.Join(args, " "), field, text, value)
		}
	}
}

// brief is a value as JSON, texts without quotes.
func brief(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
