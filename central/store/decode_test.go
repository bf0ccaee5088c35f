package store

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzDecodeObject holds that what is read the quick way is what encoding/json reads.
func FuzzDecodeObject(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":1,"b":"x","c":[true,false,null,{}],"d":{"e":-1.5e3}}`, `{"a":"\u00fc\n","ü":"<"}`, `{"a":1}x`, `{ "a": 1 }`,
		`{"a":[]}`, `{"a":1,"a":2}`, `null`, `[]`, `{"a":`, `{"a":"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want map[string]any
		if json.Unmarshal([]byte(text), &want) != nil {
			return // a column holds what encoding/json has made
		}
		canonical, err := json.Marshal(want)
		if err != nil || want == nil {
			return
		}
		want = nil
		if err := json.Unmarshal(canonical, &want); err != nil {
			t.Fatal(err)
		}
		got, err := decodeObject(string(canonical))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", canonical, got, err, want)
		}
	})
}

func BenchmarkDecodeObject(b *testing.B) {
	const text = `{"asset":"A0000001","deploy_kernel":"http://images.example/kernel","redfish_address":"https://10.0.0.1","redfish_username":"operator","unit":7}`
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeObject(text); err != nil {
			b.Fatal(err)
		}
	}
}
