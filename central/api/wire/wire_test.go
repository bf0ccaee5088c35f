package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/api/microversion"
)

func TestAppendValue(t *testing.T) {
	for _, tt := range []struct {
		v    any
		want string
	}{
		{nil, "null"}, {"a\"b<ü", `"a\"b<ü"`}, {true, "true"}, {7, "7"}, {map[string]any(nil), "{}"}, {[]string(nil), "[]"},
		{[]string{"a", "b"}, `["a","b"]`}, {map[string]any{"a": "<"}, `{"a":"<"}`}, {time.Time{}, "null"},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), `"2026-01-02T02:04:05+00:00"`},
		{time.Date(2026, 1, 2, 3, 4, 5, 70000, time.UTC), `"2026-01-02T03:04:05.000070+00:00"`},
		{json.RawMessage(nil), "null"}, {json.Number("1.50"), "1.50"}, {func() {}, "null"},
	} {
		if got := string(AppendValue(nil, tt.v)); got != tt.want && !(json.Valid([]byte(got)) && got == `"a\"b\u003cü"`) {
			t.Errorf("%v gives %s, want %s", tt.v, got, tt.want)
		}
	}
}

func TestAsError(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{fmt.Errorf("wrapped: %w", Invalid("x")), 400},
		{&microversion.NotAcceptableError{Reason: "x"}, 406},
		{errors.New("a secret of ours"), 500},
	} {
		e := AsError(tt.err)
		if e.Status != tt.want || e.Status == 500 && e.Text == tt.err.Error() {
			t.Errorf("%v gives %d %q, want %d", tt.err, e.Status, e.Text, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name    string
		version microversion.Version
		want    bool
	}{
		{"host-1.example", 5, true}, {"under_score", 9, false}, {"under_score", 10, true}, {"a b", 115, false}, {"", 115, false},
		{"1.2.3.4", 9, true}, {"Upper", 9, false}, {"Upper", 10, true}, {"states", 115, false}, {"11111111222243338444555555555555", 115, false}, {"~x", 10, true},
	} {
		if got := ValidName(tt.name, tt.version); got != tt.want {
			t.Errorf("%q at %s: %t, want %t", tt.name, tt.version, got, tt.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",{"b":null}]}`))
	f.Add([]byte(`1e999`))
	f.Add([]byte(`"\u0000"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		if depth(data) < 0 {
			t.Errorf("depth of %q is negative", data)
		}
		var back any
		if err := json.Unmarshal(AppendValue(nil, v), &back); err != nil {
			t.Errorf("%q does not come back: %v", data, err)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("limit=1&marker=x")
	f.Add("fields=a,,B&detail=yes")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := ParseQuery(raw)
		if err != nil {
			return
		}
		q.List("fields")
		q.Words("shard")
		q.Bool("detail")
		q.UUID("instance_uuid")
		p, err := q.Page("id")
		if err == nil && (p.Limit < 1 || p.Limit > MaxLimit) {
			t.Errorf("%q gives a limit of %d", raw, p.Limit)
		}
	})
}

// TestDetails: what Ironic would not have said is beside its words, and in the log.
func TestDetails(t *testing.T) {
	e := NotAcceptable("Field owner", 50)
	if got, want := string(e.Body()), `{"error_message":"{\"faultcode\":\"Client\",\"faultstring\":\"Request not acceptable.\",\"debuginfo\":\"Field owner needs API version 1.50 or newer\"}"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := e.Error(), "Request not acceptable. (Field owner needs API version 1.50 or newer)"; got != want {
		t.Errorf("the log says %s, want %s", got, want)
	}
	if got, want := AsError(twoTexts{}), (Error{Status: 409, Text: "no", Detail: "because"}); *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// twoTexts is an error that says its text and its detail apart.
type twoTexts struct{}

func (twoTexts) Error() string                 { return "no (because)" }
func (twoTexts) HTTPStatus() int               { return 409 }
func (twoTexts) Answer() (text, detail string) { return "no", "because" }
