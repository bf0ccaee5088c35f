package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type operation byte

const (
	opTrue operation = iota
	opFalse
	opNot
	opAnd
	opOr
	opRule   // another rule, named by match
	opCheck  // kind:match, about the caller
	opTarget // the object's attribute at is literal; only in what reduce returns
)

// expr is an expression of the language that oslo.policy's documentation describes.
type expr struct {
	op   operation
	kids []*expr
	// kind is a caller's attribute, or where isLiteral, literal stands in its place.
	kind      string
	isLiteral bool
	literal   string
	// match is a text, or where placeholder, the name of an attribute: %(match)s.
	match       string
	placeholder bool
	at          func(*Target) string
}

// holds evaluates what reduce has left.
func (e *expr) holds(t *Target) bool {
	switch e.op {
	case opTrue:
		return true
	case opNot:
		return !e.kids[0].holds(t)
	case opAnd:
		for _, kid := range e.kids {
			if !kid.holds(t) {
				return false
			}
		}
		return true
	case opOr:
		for _, kid := range e.kids {
			if kid.holds(t) {
				return true
			}
		}
	case opTarget:
		return e.at(t) == e.literal
	}
	return false
}

// parse reads an expression. "not" binds closest, then "and", then "or". The empty text
// and "@" let everybody pass, "!" nobody.
func parse(text string) (*expr, error) {
	p := &parser{tokens: tokens(text)}
	if len(p.tokens) == 0 {
		return yes, nil
	}
	e, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if len(p.tokens) > 0 {
		return nil, fmt.Errorf("unexpected %q after the end of the expression", p.tokens[0])
	}
	return e, nil
}

// tokens cuts a text at blanks, and parentheses off the words. A parenthesis belongs to
// a word where it is one of %(name)s.
func tokens(text string) []string {
	var list []string
	for _, word := range strings.Fields(text) {
		for strings.HasPrefix(word, "(") {
			list, word = append(list, "("), word[1:]
		}
		closing := 0
		for strings.HasSuffix(word, ")") {
			word, closing = word[:len(word)-1], closing+1
		}
		if word != "" {
			list = append(list, word)
		}
		for range closing {
			list = append(list, ")")
		}
	}
	return list
}

// maxNesting bounds parentheses and "not"s.
const maxNesting = 100

type parser struct{ tokens []string }

func (p *parser) next() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) take() string {
	t := p.next()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) or(depth int) (*expr, error)  { return p.list(opOr, "or", p.and, depth) }
func (p *parser) and(depth int) (*expr, error) { return p.list(opAnd, "and", p.not, depth) }

func (p *parser) list(op operation, word string, item func(int) (*expr, error), depth int) (*expr, error) {
	first, err := item(depth)
	if err != nil {
		return nil, err
	}
	kids := []*expr{first}
	for strings.EqualFold(p.next(), word) {
		p.take()
		kid, err := item(depth)
		if err != nil {
			return nil, err
		}
		kids = append(kids, kid)
	}
	if len(kids) == 1 {
		return first, nil
	}
	return &expr{op: op, kids: kids}, nil
}

func (p *parser) not(depth int) (*expr, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("more than %d nested parentheses or \"not\"s", maxNesting)
	}
	switch token := p.take(); {
	case token == "":
		return nil, fmt.Errorf("the expression ends where a check is expected")
	case strings.EqualFold(token, "not"):
		kid, err := p.not(depth + 1)
		if err != nil {
			return nil, err
		}
		return &expr{op: opNot, kids: []*expr{kid}}, nil
	case token == "(":
		e, err := p.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if closing := p.take(); closing != ")" {
			return nil, fmt.Errorf("a parenthesis is not closed")
		}
		return e, nil
	case token == "@":
		return yes, nil
	case token == "!":
		return no, nil
	default:
		return check(token)
	}
}

// check reads one "kind:match".
func check(token string) (*expr, error) {
	kind, match, found := strings.Cut(token, ":")
	if !found || kind == "" || match == "" {
		return nil, fmt.Errorf("%q is not a check: write role:NAME, rule:NAME, or ATTRIBUTE:VALUE", token)
	}
	if kind == "rule" {
		return &expr{op: opRule, match: match}, nil
	}
	e := &expr{op: opCheck, kind: kind, match: match}
	if name, cut := strings.CutPrefix(match, "%("); cut {
		name, whole := strings.CutSuffix(name, ")s")
		if !whole || targetAttributes[name] == nil && attributes[name] == nil && name != serviceProject {
			return nil, fmt.Errorf("%q: unknown %%(name)s; known are %s", token, placeholders())
		}
		e.match, e.placeholder = name, true
	} else if strings.Contains(match, "%(") {
		return nil, fmt.Errorf("%q: %%(name)s must be the whole value", token)
	}
	if kind == "role" || attributes[kind] != nil {
		return e, nil
	}
	if literal, ok := literal(kind); ok {
		e.isLiteral, e.literal = true, literal
		return e, nil
	}
	return nil, fmt.Errorf("%q names an unknown attribute of the caller; known are role, rule, %s, and literals in quotes", token,
		strings.Join(slices.Sorted(maps.Keys(attributes)), ", "))
}

// literal reads the left side of a check that names no attribute: 'text', a number or True.
func literal(s string) (string, bool) {
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1], true
	}
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return s, true
	}
	return s, s == "True" || s == "False" || s == "None"
}

func placeholders() string {
	var list []string
	for name := range targetAttributes {
		list = append(list, "%("+name+")s")
	}
	for name := range attributes {
		list = append(list, "%("+name+")s")
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
