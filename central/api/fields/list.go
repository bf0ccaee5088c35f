package fields

import (
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// Strings is a list of texts, [] when it is empty.
func Strings[T any](name string, since microversion.Version, at func(*T) *[]string) Field[T] {
	return Field[T]{Name: name, Since: since,
		Get: func(t *T) any {
			list := make([]any, len(*at(t)))
			for i, s := range *at(t) {
				list[i] = s
			}
			return list
		},
		Set: func(t *T, v any) {
			*at(t) = []string{}
			list, _ := v.([]any)
			for _, item := range list {
				if s, ok := item.(string); ok {
					*at(t) = append(*at(t), s)
				}
			}
		},
		Check: func(v any) (any, error) {
			list, ok := v.([]any)
			if !ok && v != nil {
				return nil, fmt.Errorf("%s is not of type 'array', 'null'", wire.Repr(v))
			}
			for _, item := range list {
				if _, ok := item.(string); !ok {
					return nil, fmt.Errorf("%s is not of type 'string'", wire.Repr(item))
				}
			}
			return v, nil
		},
	}
}

// Each adds a check of every text of a list.
func (f Field[T]) Each(check func(string) error) Field[T] {
	return f.Where(func(v any) error {
		list, _ := v.([]any)
		for _, item := range list {
			s, _ := item.(string)
			if err := check(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// Whole is a whole number from least to most, never null; null sets 0.
func Whole[T any](name string, since microversion.Version, least, most int64, at func(*T) *int64) Field[T] {
	return Field[T]{Name: name, Since: since, Type: "integer",
		Get: func(t *T) any { return *at(t) },
		Set: func(t *T, v any) { *at(t), _ = v.(int64) },
		Check: func(v any) (any, error) {
			if v == nil {
				return nil, nil
			}
			if n, stored := v.(int64); stored { // as a PATCH of something else finds it
				return n, nil
			}
			number, ok := v.(json.Number)
			n, isWhole := Integer(number)
			if !ok || !isWhole {
				return nil, fmt.Errorf("%s is not of type 'integer'", wire.Repr(v))
			}
			if n < least {
				return nil, fmt.Errorf("%d is less than the minimum of %d", n, least)
			}
			if n > most {
				return nil, fmt.Errorf("%d is greater than the maximum of %d", n, most)
			}
			return n, nil
		},
	}
}
