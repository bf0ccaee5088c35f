package hints

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// expression is one parsed hint value: an operator and its operands. The language
// is that of Ironic's root device hints (ironic-facts §5.6).
type expression struct {
	op       string
	operands []string
	// low and high open or close a range: '[' or '(' and ']' or ')'.
	low, high byte
}

const (
	opIn      = "<in>"
	opAllIn   = "<all-in>"
	opOr      = "<or>"
	opRangeIn = "<range-in>"
	opSame    = "" // no operator: equality in the key's own type
)

var (
	numberOps = []string{"=", "==", "!=", ">=", "<=", ">", "<"}
	stringOps = []string{"s==", "s!=", "s>=", "s>", "s<=", "s<"}
)

// maxExpression bounds one hint's text.
const maxExpression = 4096

func parse(text string, numeric bool) (expression, error) {
	if len(text) > maxExpression {
		return expression{}, fmt.Errorf("longer than %d bytes", maxExpression)
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return expression{}, errors.New("empty")
	}
	e := expression{op: operator(words[0])}
	rest := words
	if e.op != opSame {
		rest = strings.Fields(strings.TrimSpace(text)[len(e.op):])
	}
	switch {
	case e.op == opIn:
		e.operands = []string{strings.Join(rest, " ")}
	case e.op == opAllIn:
		e.operands = rest
	case e.op == opOr:
		for part := range strings.SplitSeq(text, opOr) {
			if part = strings.TrimSpace(part); part != "" {
				e.operands = append(e.operands, strings.Join(strings.Fields(part), " "))
			}
		}
	case e.op == opRangeIn:
		if len(rest) != 4 || (rest[0] != "[" && rest[0] != "(") || (rest[3] != "]" && rest[3] != ")") {
			return e, errors.New("a range is written <range-in> [ low high ], with ( or ) for an open end")
		}
		e.low, e.high, e.operands = rest[0][0], rest[3][0], rest[1:3]
		return e, allNumbers(e.operands)
	case contains(numberOps, e.op):
		e.operands = []string{strings.Join(rest, " ")}
		if err := allNumbers(e.operands); err != nil {
			return e, err
		}
	case contains(stringOps, e.op):
		e.operands = []string{strings.Join(rest, " ")}
	default:
		e = expression{op: opSame, operands: []string{strings.Join(words, " ")}}
		if numeric {
			return e, allNumbers(e.operands)
		}
	}
	if len(e.operands) == 0 || e.operands[0] == "" {
		return e, fmt.Errorf("operator %s has no operand", e.op)
	}
	if numeric && e.op == opOr {
		return e, allNumbers(e.operands)
	}
	return e, nil
}

// operators are all of them, each before those that it begins with.
var operators = []string{opOr, opAllIn, opRangeIn, opIn, "==", "!=", ">=", "<=", "=", ">", "<", "s==", "s!=", "s>=", "s<=", "s>", "s<"}

// operator is the one that a text begins with. As in Ironic's grammar no space has to follow it.
func operator(text string) string {
	for _, op := range operators {
		if strings.HasPrefix(text, op) {
			return op
		}
	}
	return opSame
}

// String is the expression as hints write it.
func (e expression) String() string {
	return strings.TrimSpace(e.op + " " + strings.Join(e.operands, " "))
}

// matches compares a property of a disk, already in lower case.
func (e expression) matches(have string, numeric bool) bool {
	switch e.op {
	case opIn:
		return strings.Contains(have, e.operands[0])
	case opAllIn:
		for _, o := range e.operands {
			if !strings.Contains(have, o) {
				return false
			}
		}
		return true
	case opOr:
		for _, o := range e.operands {
			if same(have, o, numeric) {
				return true
			}
		}
		return false
	case opSame:
		return same(have, e.operands[0], numeric)
	case "s==":
		return have == e.operands[0]
	case "s!=":
		return have != e.operands[0]
	case "s>=":
		return have >= e.operands[0]
	case "s>":
		return have > e.operands[0]
	case "s<=":
		return have <= e.operands[0]
	case "s<":
		return have < e.operands[0]
	}
	n, err := strconv.ParseFloat(have, 64)
	if err != nil {
		return false
	}
	first := number(e.operands[0])
	switch e.op {
	case "=", ">=": // "=" means "at least" in this language
		return n >= first
	case "==":
		return n == first
	case "!=":
		return n != first
	case "<=":
		return n <= first
	case ">":
		return n > first
	case "<":
		return n < first
	case opRangeIn:
		last := number(e.operands[1])
		return (n > first || n == first && e.low == '[') && (n < last || n == last && e.high == ']')
	}
	return false
}

func same(have, want string, numeric bool) bool {
	if !numeric {
		return have == want
	}
	n, err := strconv.ParseFloat(have, 64)
	return err == nil && n == number(want)
}

func allNumbers(words []string) error {
	for _, w := range words {
		if _, err := strconv.ParseFloat(w, 64); err != nil {
			return fmt.Errorf("%q is not a number", w)
		}
	}
	return nil
}

// number reads what allNumbers has accepted.
func number(s string) float64 {
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
