package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func TestSurvey(t *testing.T) {
	for body, want := range map[string]int{``: 0, ` {} `: 0, `{"a":[1,2.5e3,{"b":null}],"c":"\\u0000"}`: 0, "\xef\xbb\xbf{}": 0,
		`[]`: 400, `{`: 400, `{} {}`: 400, `{"a":"\u0000"}`: 400, `{"\u0000":1}`: 400, `{"a":1e999}`: 400, `{"a":` + strings.Repeat("1", 400) + `}`: 400,
		`{"a":` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}`: 400, "{\"a\":\"\xff\"}": 400, `{"a":[1,2,3,4,5,6,7,8,9]}`: 413} {
		_, _, err := Survey([]byte(body), 10)
		if (err == nil) != (want == 0) || err != nil && AsError(err).Status != want {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}

// FuzzRaw holds that what is surveyed is what Object takes, and that its parts are those that it decodes to.
func FuzzRaw(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":1,"b":[ true , {"c":"d\"}"} ],"a":"x"}`, `{"a\u0062":-1.5e-7,"":{}}`, `{"a":[[],{},[1]]} `, `[1]`, "{\"a\":\"\\ud800\"}", `{"a":1e400}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, cost, err := Survey([]byte(text), 1<<20)
		want, wantErr := Object(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)), 1<<20, nil)
		if len(text) > 1<<20 {
			return
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, but Object says %v", text, err, wantErr)
		}
		if err != nil {
			return
		}
		if cost < 0 || cost == 0 && len(want) > 0 {
			t.Errorf("%q costs %d", text, cost)
		}
		got := map[string]any{}
		for name, v := range raw.Members() {
			value, err := Decode(v)
			if err != nil {
				t.Fatalf("%q: member %q is %q: %v", text, name, v, err)
			}
			if list, isList := value.([]any); isList {
				i := 0
				for item := range v.Items() {
					one, err := Decode(item)
					if err != nil || !reflect.DeepEqual(one, list[i]) {
						t.Errorf("%q: item %d of %q is %q, %v", text, i, name, item, err)
					}
					i++
				}
				if i != len(list) {
					t.Errorf("%q: %q has %d items", text, name, i)
				}
			}
			got[name] = value
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		small, fits := raw.Compact(nil, len(raw))
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil || !fits || !bytes.Equal(small, compact.Bytes()) {
			t.Errorf("%q is compacted to %q, want %q, %v", text, small, compact.Bytes(), err)
		}
		if _, fits := raw.Compact(nil, len(small)-1); fits {
			t.Errorf("%q fits into less than it has", text)
		}
	})
}
