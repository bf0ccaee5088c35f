package store

import (
	"database/sql/driver"
	"reflect"
)

// snapshot returns arguments as they are now: those of a column point into a row,
// which its owner goes on changing.
func snapshot(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, a := range args {
		var err error
		if out[i], err = valueOf(a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// valueOf is an argument as it is now; two of one column are equal (==) if their rows are.
func valueOf(arg any) (any, error) {
	switch a := arg.(type) {
	case nil, string, int64, bool:
		return a, nil
	case *string:
		return *a, nil
	case *int64:
		return *a, nil
	case *bool:
		return *a, nil
	case driver.Valuer:
		return a.Value()
	}
	v := reflect.ValueOf(arg)
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	return v.Interface(), nil
}
