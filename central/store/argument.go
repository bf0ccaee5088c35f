package store

import (
	"database/sql/driver"
	"reflect"
	"time"
)

// snapshot returns arguments as they are now: those of a column point into a row,
// which its owner goes on changing.
func snapshot(args []any) ([]any, error) {
	list := make([]any, 0, len(args))
	for _, a := range args {
		v, err := valueOf(a)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
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
	case *time.Time:
		return toMicros(*a), nil
	case *map[string]any:
		return encodeMap(*a)
	case *map[string]string:
		return encodeMap(*a)
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
	if v.Kind() == reflect.String { // of a type of its own
		return v.String(), nil
	}
	return v.Interface(), nil
}
