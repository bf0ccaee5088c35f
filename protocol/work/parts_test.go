package work

import (
	"reflect"
	"strings"
	"testing"
)

// Each part of a document that is an object keeps what it does not know. A part that cannot would lose what a newer program has
// noted there.
func TestEachPartKeepsWhatItDoesNotKnow(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(t reflect.Type, at string) []string
	look = func(t reflect.Type, at string) (bare []string) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] || t.PkgPath() != reflect.TypeFor[Document]().PkgPath() {
			return nil
		}
		seen[t] = true
		if !holder(t) {
			bare = append(bare, strings.TrimPrefix(at, "."))
		}
		for i, name := range fieldNames(t) {
			if name != "" {
				bare = append(bare, look(t.Field(i).Type, at+"."+name)...)
			}
		}
		return bare
	}
	if bare := look(reflect.TypeFor[Document](), ""); len(bare) > 0 {
		t.Errorf("these lose the fields of newer programs: %v", bare)
	}
}
