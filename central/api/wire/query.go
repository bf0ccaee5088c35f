package wire

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxLimit is the default and the largest length of a page.
const MaxLimit = 1000

// Query is a request's arguments: each at most once, but for those that are lists, whose
// values are put together.
type Query map[string]string

// lists are the arguments that may be given several times, which says the same as once with commas.
var lists = []string{"fields", "shard", "conductor_groups", "addresses", "device_types"}

// ParseQuery reads the part of a URL behind the question mark.
func ParseQuery(raw string) (Query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, Invalid("The request's query could not be read: %v", err)
	}
	q := make(Query, len(values))
	for name, v := range values {
		if len(v) > 1 && slices.Contains(lists, name) {
			v = []string{strings.Join(v, ",")}
		}
		if len(v) > 1 {
			return nil, Invalid("Argument %q is given %d times; give it once", name, len(v))
		}
		if strings.ContainsRune(v[0], 0) || strings.ContainsRune(name, 0) {
			return nil, Invalid("Argument %q holds a NUL character", name)
		}
		if !utf8.ValidString(name) || !utf8.ValidString(v[0]) {
			return nil, FrameworkError(http.StatusBadRequest, "")
		}
		q[name] = v[0]
	}
	return q, nil
}

// Allow refuses arguments that are not among names.
func (q Query) Allow(names ...string) error {
	var unknown []string
	for name := range q {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	if unknown == nil {
		return nil
	}
	slices.Sort(unknown)
	return Invalid("Unexpected arguments: %s", strings.Join(unknown, ", "))
}

// Has reports whether the argument is there and not empty.
func (q Query) Has(name string) bool { return q[name] != "" }

// Text is the argument, also when it is empty; nil when it is missing.
func (q Query) Text(name string) *string {
	s, given := q[name]
	if !given {
		return nil
	}
	return &s
}

// Bool reads a yes or no; nil when the argument is missing.
func (q Query) Bool(name string) (*bool, error) {
	s, given := q[name]
	if !given {
		return nil, nil
	}
	v, ok := Bool(s)
	if !ok {
		return nil, Invalid("Invalid %s: Unrecognized value '%.80s', acceptable values are: %s", name, s, BoolWords)
	}
	return &v, nil
}

// UUID reads a UUID; empty when the argument is missing.
func (q Query) UUID(name string) (string, error) {
	s, given := q[name]
	if !given {
		return "", nil
	}
	id, ok := UUID(s)
	if !ok {
		return "", Invalid("Expected UUID for %s: %.80s", name, s)
	}
	return id, nil
}

// MaxWords bounds the words of one argument.
const MaxWords = 1000

// Words reads a comma-separated list without repeats and the space around words; nil when the
// argument is missing. An empty word stands for itself.
func (q Query) Words(name string) ([]string, error) {
	text, given := q[name]
	if !given {
		return nil, nil
	}
	var list []string
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); !seen[word] {
			seen[word] = true
			list = append(list, word)
		}
	}
	if len(list) > MaxWords {
		return nil, Invalid("Argument %q has %d values; at most %d are allowed", name, len(list), MaxWords)
	}
	return list, nil
}

// List reads a comma-separated list in lower case, without repeats.
func (q Query) List(name string) []string {
	var list []string
	for item := range strings.SplitSeq(q[name], ",") {
		item = strings.ToLower(strings.TrimSpace(item))
		if item != "" && !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// Page is which part of a collection is asked for, and in which order.
type Page struct {
	Limit   int
	Marker  string // name or UUID of the item before the first, empty for none
	SortKey string // empty: there is one order only
	Desc    bool
}

// PageArguments are the names of the arguments that Page reads.
var PageArguments = []string{"limit", "marker", "sort_key", "sort_dir"}

// Page reads the paging arguments; sortKey is the default key.
func (q Query) Page(sortKey string) (Page, error) {
	p := Page{Limit: MaxLimit, Marker: q["marker"], SortKey: sortKey}
	if s, given := q["limit"]; given {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange): // which means as many, or as few, as there may be
			return p, Invalid("Expected an integer for limit: %.40s", s)
		case n <= 0:
			return p, Invalid("Limit must be positive")
		}
		p.Limit = min(n, MaxLimit)
	}
	if q.Has("sort_key") {
		p.SortKey = q["sort_key"]
	}
	dir, given := q["sort_dir"]
	switch {
	case !given || dir == "asc":
	case dir == "desc":
		p.Desc = true
	default:
		return p, Invalid("Invalid sort direction: %s. Acceptable values are 'asc' or 'desc'", dir)
	}
	return p, nil
}

// flags are the arguments that mean yes or no.
var flags = []string{"associated", "detail", "include_children", "maintenance", "retired", "sharded"}

// Next returns the URL of the page that follows marker: the same question, with every
// argument kept, those that mean yes or no spelt True and False, and the order and the
// fields told that it has by default. fields are the names of the fields of a list that
// shows part of each item and may be asked for others; nil for any other.
func (q Query) Next(base, path string, p Page, marker string, fields []string) string {
	values := url.Values{}
	if p.SortKey != "" {
		values.Set("sort_key", p.SortKey)
		values.Set("sort_dir", map[bool]string{false: "asc", true: "desc"}[p.Desc])
	}
	if fields != nil {
		values.Set("fields", strings.Join(fields, ","))
	}
	for name, v := range q {
		if yes, ok := Bool(v); ok && slices.Contains(flags, name) {
			v = "False"
			if yes {
				v = "True"
			}
		}
		values.Set(name, v)
	}
	values.Set("limit", strconv.Itoa(p.Limit))
	values.Set("marker", marker)
	// A comma needs no escape, and lists are easier to read and to recognise with theirs.
	return base + "/v1/" + path + "?" + strings.ReplaceAll(values.Encode(), "%2C", ",")
}
