package store

import (
	"fmt"
	"testing"
)

func TestByPosition(t *testing.T) {
	for _, c := range []struct{ stmt, want string }{
		{"SELECT 1", "SELECT 1 [a b c]"},
		{"INSERT INTO t VALUES ($1, $2, $3)", "INSERT INTO t VALUES (?, ?, ?) [a b c]"},
		{"UPDATE t SET x = $3 WHERE y = $1 AND z IN ($2, $1)", "UPDATE t SET x = ? WHERE y = ? AND z IN (?, ?) [c a b a]"},
		{"SELECT '$1', '''$2', $2 || '$'", "SELECT '$1', '''$2', ? || '$' [b]"},
		{"SELECT $ FROM t WHERE x = $4", "SELECT $ FROM t WHERE x = ? [a b c]"},
	} {
		p := byPosition(c.stmt)
		if got := fmt.Sprint(p.text, " ", p.arguments([]any{"a", "b", "c"})); got != c.want {
			t.Errorf("%s: got %s, want %s", c.stmt, got, c.want)
		}
	}
}
