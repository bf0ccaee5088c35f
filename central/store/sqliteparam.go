package store

import (
	"strconv"
	"strings"
)

// positional is a statement as SQLite takes it fastest: with ?, whose arguments come in
// the order of the text. It takes $1 too, as a parameter with a name, and looks through
// the list of all names for each argument of each call.
type positional struct {
	text  string
	order []int // the argument of each ?; nil: as they come
}

// byPosition turns each $N outside of quotes into ?.
func byPosition(stmt string) positional {
	var p positional
	var b strings.Builder
	inOrder, quoted := true, false
	for i := 0; i < len(stmt); i++ {
		end := i + 1
		if stmt[i] == '\'' {
			quoted = !quoted
		}
		for stmt[i] == '$' && !quoted && end < len(stmt) && stmt[end] >= '0' && stmt[end] <= '9' {
			end++
		}
		if end == i+1 {
			b.WriteByte(stmt[i])
			continue
		}
		n, _ := strconv.Atoi(stmt[i+1 : end])
		b.WriteByte('?')
		p.order = append(p.order, n-1)
		inOrder = inOrder && n == len(p.order)
		i = end - 1
	}
	p.text = b.String()
	if inOrder {
		p.order = nil
	}
	return p
}

// arguments returns the arguments in the order of the text.
func (p positional) arguments(args []any) []any {
	if p.order == nil {
		return args
	}
	out := make([]any, len(p.order))
	for i, n := range p.order {
		if n >= len(args) {
			return args // one is missing: SQLite says so
		}
		out[i] = args[n]
	}
	return out
}
