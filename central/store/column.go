package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// column ties a column to a field of T: field returns a pointer to it. Times, and maps, are
// kept as micros and object say; other types that are no database's own are wrapped there.
type column[T any] struct {
	name  string
	class class
	field func(*T) any
}

// class says who writes a column.
type class int

const (
	key       class = iota // on insert only
	intent                 // UpdateNode
	observed               // ingest, single writes
	hot                    // observed, and written in batches by SaveObserved
	effective              // computed by the database
)

func names[T any](columns []column[T], prefix string, classes ...class) string {
	var list []string
	for _, c := range pick(columns, classes...) {
		list = append(list, prefix+c.name)
	}
	return strings.Join(list, ", ")
}

// outer is names for the table that a LEFT JOIN may not find: its columns, none of
// which is ever NULL, then read as zero values.
func outer[T any](columns []column[T], prefix string) string {
	var list []string
	for _, c := range columns {
		zero := "''"
		switch c.field(new(T)).(type) {
		case *int64, *uint64, *time.Time:
			zero = "0"
		case *bool:
			zero = "FALSE"
		}
		list = append(list, "COALESCE("+prefix+c.name+", "+zero+")")
	}
	return strings.Join(list, ", ")
}

// fields returns what rows are scanned into and what is passed as arguments.
func fields[T any](columns []column[T], row *T, classes ...class) []any {
	list := make([]any, 0, len(columns))
	for _, c := range columns {
		if len(classes) == 0 || slices.Contains(classes, c.class) {
			list = append(list, wrap(c.field(row)))
		}
	}
	return list
}

// wrap makes a field scan and write what its column holds.
func wrap(field any) any {
	switch f := field.(type) {
	case *time.Time:
		return &micros{f}
	case *map[string]any, *map[string]string:
		return asObject(f)
	}
	return field
}

// appendValues appends what the columns of a row are to hold, as it is now.
func appendValues[T any](list []any, columns []column[T], row *T) ([]any, error) {
	for _, c := range columns {
		v, err := valueOf(c.field(row))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// pick returns the columns of the classes, all when none is given.
func pick[T any](columns []column[T], classes ...class) []column[T] {
	if len(classes) == 0 {
		return columns
	}
	var out []column[T]
	for _, c := range columns {
		if slices.Contains(classes, c.class) {
			out = append(out, c)
		}
	}
	return out
}

// assignments returns "a = $from, b = $from+1".
func assignments[T any](columns []column[T], from int, classes ...class) string {
	var list []string
	for i, c := range pick(columns, classes...) {
		list = append(list, fmt.Sprintf("%s = $%d", c.name, from+i))
	}
	return strings.Join(list, ", ")
}

// micros keeps a time as microseconds since 1970, zero for the zero time: the one
// form that is exact and sorts alike on every engine.
type micros struct{ t *time.Time }

func (m *micros) Scan(src any) error {
	n, ok := src.(int64)
	switch {
	case !ok:
		return fmt.Errorf("time column holds %T", src)
	case n == 0:
		*m.t = time.Time{}
	default:
		*m.t = time.UnixMicro(n).UTC()
	}
	return nil
}

func (m *micros) Value() (driver.Value, error) { return toMicros(*m.t), nil }

func toMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// object keeps a value as JSON text, empty for the zero value.
type object struct {
	v    any
	text string // that was scanned
}

func asObject(v any) *object { return &object{v: v} }

func (o *object) Scan(src any) error {
	var text string
	defer func() { o.text = text }()
	switch s := src.(type) {
	case string:
		text = s
	case []byte:
		text = string(s)
	default:
		return fmt.Errorf("JSON column holds %T", src)
	}
	if text == "" {
		return nil
	}
	var err error
	switch v := o.v.(type) {
	case *map[string]any:
		*v, err = decodeObject(text)
	case *map[string]string:
		*v, err = decodeTexts(text)
	default:
		err = json.Unmarshal([]byte(text), o.v)
	}
	return err
}

func (o *object) Value() (driver.Value, error) {
	switch v := o.v.(type) {
	case *map[string]any:
		return encodeMap(*v)
	case *map[string]string:
		return encodeMap(*v)
	}
	text, err := json.Marshal(o.v)
	return string(text), err
}
