package kickstart

import (
	"fmt"
	"regexp"
	"strings"
)

// maxTemplate bounds a template, in bytes; maxDepth how deep its conditions lie in each other.
const (
	maxTemplate = 1 << 20
	maxDepth    = 16
)

// Template is a template that was read. It does not change.
type Template struct{ parts []part }

// part is text, a variable, or a condition with what it chooses from.
type part struct {
	text     string
	variable string
	line     int
	branches []branch
}

// branch is chosen when its condition holds. The last one of a condition may hold always.
type branch struct {
	name   string // of a variable; empty: always
	absent bool   // holds when the variable is not there
	parts  []part
}

var (
	marks     = regexp.MustCompile(`(?s)\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}`)
	variable  = regexp.MustCompile(`^ks_options(?:\.([A-Za-z_]\w*)|\[\s*['"]([A-Za-z_]\w*)['"]\s*\])$`)
	condition = regexp.MustCompile(`^(?:['"]([A-Za-z_]\w*)['"]\s+(not\s+)?in\s+ks_options|(not\s+)?ks_options\.([A-Za-z_]\w*)(\s+is\s+defined)?)$`)
)

// Parse reads a template. Errors wrap ErrInvalid and tell the line.
func Parse(text string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("%w: the template has %d bytes, more than %d", ErrInvalid, len(text), maxTemplate)
	}
	r := reader{text: strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	parts, end, err := r.block(0)
	if err == nil && end != "" {
		err = r.wrong("%.40q has no if before it", end)
	}
	if err != nil {
		return nil, err
	}
	return &Template{parts}, nil
}

// reader goes through a template.
type reader struct {
	text string
	at   int
	trim bool // the mark before took the white space after it
}

func (r *reader) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: line %d of the template: %s", ErrInvalid, r.line(), fmt.Sprintf(format, args...))
}

func (r *reader) line() int { return 1 + strings.Count(r.text[:r.at], "\n") }

// block reads up to the end, or to an else, elif or endif, which it returns.
func (r *reader) block(depth int) (parts []part, end string, err error) {
	if depth > maxDepth {
		return nil, "", r.wrong("its conditions lie more than %d deep", maxDepth)
	}
	for {
		found := marks.FindStringIndex(r.text[r.at:])
		if found == nil {
			rest := r.words(r.text[r.at:], false)
			for _, open := range []string{"{{", "{%", "{#"} {
				if strings.Contains(rest, open) {
					return nil, "", r.wrong("%s does not end", open)
				}
			}
			r.at = len(r.text)
			return append(parts, part{text: rest}), "", nil
		}
		mark := r.text[r.at+found[0] : r.at+found[1]]
		inner := mark[2 : len(mark)-2]
		parts = append(parts, part{text: r.words(r.text[r.at:r.at+found[0]], strings.HasPrefix(inner, "-"))})
		r.at += found[0]
		r.trim = strings.HasSuffix(inner, "-")
		inner = strings.TrimSpace(strings.Trim(inner, "-+"))
		line := r.line()
		switch {
		case mark[1] == '#':
			r.at += len(mark)
		case mark[1] == '{':
			m := variable.FindStringSubmatch(inner)
			if m == nil {
				return nil, "", r.wrong("{{ %.60s }}: only ks_options.NAME is read", inner)
			}
			parts = append(parts, part{variable: m[1] + m[2], line: line})
			r.at += len(mark)
		default:
			word, rest, _ := strings.Cut(inner, " ")
			if word != "if" {
				if word != "elif" && inner != "else" && inner != "endif" {
					return nil, "", r.wrong("{%% %.60s %%}: only if, elif, else and endif are read", inner)
				}
				return parts, inner, nil
			}
			r.at += len(mark)
			chosen, err := r.choice(rest, depth)
			if err != nil {
				return nil, "", err
			}
			parts = append(parts, chosen)
		}
	}
}

// words is text between two marks, without the white space that they take.
func (r *reader) words(text string, before bool) string {
	if r.trim {
		text, r.trim = strings.TrimLeft(text, " \t\n"), false
	}
	if before {
		text = strings.TrimRight(text, " \t\n")
	}
	return text
}

// choice reads a condition up to its endif. The first condition is read already.
func (r *reader) choice(first string, depth int) (c part, err error) {
	is := first
	for {
		b := branch{}
		if is != "" {
			m := condition.FindStringSubmatch(strings.TrimSpace(is))
			if m == nil {
				return c, r.wrong("if %.60s: only whether ks_options has a name is read, as in 'NAME' in ks_options", is)
			}
			b.name, b.absent = m[1]+m[4], m[2]+m[3] != ""
		}
		var end string
		if b.parts, end, err = r.block(depth + 1); err != nil {
			return c, err
		}
		c.branches = append(c.branches, b)
		if end == "" {
			return c, r.wrong("an if has no endif")
		}
		r.at += strings.Index(r.text[r.at:], "%}") + 2
		switch {
		case end == "endif":
			return c, nil
		case is == "":
			return c, r.wrong("%.40q comes after else", end)
		case end == "else":
			is = ""
		default:
			if is = strings.TrimSpace(strings.TrimPrefix(end, "elif")); is == "" {
				return c, r.wrong("elif says no condition")
			}
		}
	}
}

// Render fills values in. A variable that is not among them is an error.
func (t *Template) Render(values Values) (string, error) {
	var b strings.Builder
	if err := render(&b, t.parts, values); err != nil {
		return "", err
	}
	return b.String() + "\n", nil
}

func render(b *strings.Builder, parts []part, values Values) error {
	for _, p := range parts {
		b.WriteString(p.text)
		if p.variable != "" {
			value, there := values[p.variable]
			if !there {
				return fmt.Errorf("line %d uses ks_options.%.60s, which there is not", p.line, p.variable)
			}
			b.WriteString(value)
		}
		for _, c := range p.branches {
			if _, there := values[c.name]; c.name != "" && there == c.absent {
				continue
			}
			if err := render(b, c.parts, values); err != nil {
				return err
			}
			break
		}
	}
	return nil
}
