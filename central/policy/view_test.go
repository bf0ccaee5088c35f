package policy

import (
	"reflect"
	"testing"

	"github.com/ironyard/ironyard/central/auth"
)

// TestEveryFieldTellsCallersApart also holds for fields that a Caller gets later.
func TestEveryFieldTellsCallersApart(t *testing.T) {
	r := Default("service")
	nobody := r.For(&auth.Caller{})
	kind := reflect.TypeFor[auth.Caller]()
	for i := range kind.NumField() {
		var c auth.Caller
		switch f := reflect.ValueOf(&c).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		default:
			t.Fatalf("%s is a %s: teach this test", kind.Field(i).Name, f.Kind())
		}
		v := r.For(&c)
		if v == nobody {
			t.Errorf("callers that differ in %s alone are taken for one", kind.Field(i).Name)
		}
		if again := c; r.For(&again) != v {
			t.Errorf("a caller with %s is not known again", kind.Field(i).Name)
		}
	}
}
