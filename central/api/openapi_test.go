package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/central/api/schema"
)

// document is the API's description as clients get it.
func (b *bench) document() map[string]any {
	b.t.Helper()
	return b.want(200, "GET", "/v1/openapi.json", "", "").object(b.t)
}

// Every route is described, and the description is a valid OpenAPI 3.1 document.
func TestOpenAPI(t *testing.T) {
	b := newBench(t)
	doc := b.document()
	if doc["openapi"] != "3.1.0" || doc["info"].(map[string]any)["title"] == "" {
		t.Errorf("openapi %v, info %v", doc["openapi"], doc["info"])
	}
	b.want(200, "GET", "/v1/openapi.json", "1.50", "") // which knows it without the suffix
	paths := doc["paths"].(map[string]any)
	for _, resource := range b.server.resources {
		for _, route := range resource.Routes {
			item, _ := paths[strings.TrimSuffix("/v1/"+route.Path, "/")].(map[string]any)
			if o, _ := item[strings.ToLower(route.Method)].(map[string]any); o == nil || o["x-policy"] != route.Policy {
				t.Errorf("%s %s is not described", route.Method, route.Path)
			}
		}
	}
	ids := map[string]bool{}
	inPath := regexp.MustCompile(`\{([^}]+)\}`)
	for path, item := range paths {
		if !strings.HasPrefix(path, "/") {
			t.Errorf("path %q does not begin with a slash", path)
		}
		for method, o := range item.(map[string]any) {
			op := o.(map[string]any)
			id := op["operationId"].(string)
			if ids[id] {
				t.Errorf("operationId %s is there twice", id)
			}
			ids[id] = true
			if summary := op["summary"].(string); summary == "" || strings.HasSuffix(summary, ".") {
				t.Errorf("%s %s: summary %q", method, path, summary)
			}
			if len(op["responses"].(map[string]any)) < 2 {
				t.Errorf("%s %s: responses %v", method, path, op["responses"])
			}
			seen := map[string]bool{}
			for _, p := range op["parameters"].([]any) {
				param := p.(map[string]any)
				key := fmt.Sprint(param["in"], " ", param["name"])
				if seen[key] || param["schema"] == nil || param["in"] == "path" && param["required"] != true {
					t.Errorf("%s %s: parameter %v", method, path, param)
				}
				seen[key] = true
			}
			for _, m := range inPath.FindAllStringSubmatch(path, -1) {
				if !seen["path "+m[1]] {
					t.Errorf("%s %s: parameter %s is not described", method, path, m[1])
				}
			}
		}
	}
	checkRefs(t, doc, doc)
}

// checkRefs holds that every reference leads somewhere.
func checkRefs(t *testing.T, doc map[string]any, v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && resolve(doc, ref) == nil {
			t.Errorf("%s leads nowhere", ref)
		}
		for _, inner := range v {
			checkRefs(t, doc, inner)
		}
	case []any:
		for _, inner := range v {
			checkRefs(t, doc, inner)
		}
	}
}

func resolve(doc map[string]any, ref string) map[string]any {
	at := doc
	for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		at, _ = at[part].(map[string]any)
	}
	return at
}

// fitting compares values with schemas of doc. It knows the words of JSON Schema that the
// document uses.
type fitting struct {
	doc map[string]any
	// lenient: a text may say what is to be a flag or a number, and the other way round.
	lenient bool
}

// fits says how a value does not fit a schema; empty: it fits.
func (f fitting) fits(described map[string]any, v any, where string) string {
	if ref, ok := described["$ref"].(string); ok {
		return f.fits(resolve(f.doc, ref), v, where)
	}
	if want := types(described["type"]); want != nil && !f.isOf(want, v) {
		return fmt.Sprintf("%s is of type %s, want %v", where, typeOf(v), want)
	}
	if values := types(described["enum"]); values != nil && !slices.Contains(values, fmt.Sprint(v)) {
		return fmt.Sprintf("%s is %v, want one of %v", where, v, values)
	}
	if either, _ := described["oneOf"].([]any); either != nil {
		fitting := slices.DeleteFunc(slices.Clone(either), func(s any) bool { return f.fits(s.(map[string]any), v, "") != "" })
		if len(fitting) != 1 {
			return fmt.Sprintf("%s fits %d of %v", where, len(fitting), either)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		props, _ := described["properties"].(map[string]any)
		others, _ := described["additionalProperties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			p, known := props[name].(map[string]any)
			if !known && described["additionalProperties"] == false {
				return where + " has " + name + ", which is not described"
			}
			if !known {
				p, known = others, others != nil
			}
			if why := f.fits(p, v[name], where+"."+name); known && why != "" {
				return why
			}
		}
		for _, name := range types(described["required"]) {
			if _, given := v[name]; !given {
				return where + " lacks " + name
			}
		}
	case []any:
		items, _ := described["items"].(map[string]any)
		for i, item := range v {
			if why := f.fits(items, item, fmt.Sprintf("%s[%d]", where, i)); items != nil && why != "" {
				return why
			}
		}
	}
	return ""
}

func (f fitting) isOf(types []string, v any) bool {
	is := typeOf(v)
	plain := func(kind string) bool { return kind != "object" && kind != "array" }
	return slices.Contains(types, is) || is == "integer" && slices.Contains(types, "number") || f.lenient && plain(is) && slices.ContainsFunc(types, plain)
}

// Callers say who they are by a scheme that is described, but for what everybody may read.
func TestOpenAPISecurity(t *testing.T) {
	b := newBench(t)
	doc := b.document()
	schemes := resolve(doc, "#/components/securitySchemes")
	for _, s := range doc["security"].([]any) {
		for name := range s.(map[string]any) {
			if schemes[name] == nil {
				t.Errorf("scheme %s is not described", name)
			}
		}
	}
	for path, item := range doc["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			op := o.(map[string]any)
			if own, has := op["security"].([]any); has != (op["x-policy"] == Public) || len(own) != 0 {
				t.Errorf("%s %s: policy %v, security %v", method, path, op["x-policy"], op["security"])
			}
		}
	}
}

func types(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, t := range v {
			list = append(list, t.(string))
		}
	}
	return list
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// described31 is the description, which is the same for every server.
var described31 = sync.OnceValue(func() map[string]any {
	var doc map[string]any
	s := &Server{}
	if err := json.Unmarshal(s.describe(s.list()), &doc); err != nil {
		panic(err)
	}
	return doc
})

// checkDescribed holds an answer, and the body of the request that it accepts, against the
// description of its route.
func (b *bench) checkDescribed(route *Route, a answer, method, sent string) {
	b.t.Helper()
	if a.StatusCode >= 300 || method == "HEAD" || method == "OPTIONS" {
		return
	}
	doc := described31()
	item := doc["paths"].(map[string]any)[strings.TrimSuffix("/v1/"+route.Path, "/")].(map[string]any)
	op := item[strings.ToLower(route.Method)].(map[string]any)
	var body any
	if taken, _ := op["requestBody"].(map[string]any); taken != nil && json.Unmarshal([]byte(sent), &body) == nil {
		if why := (fitting{doc: doc, lenient: true}).fits(schemaOf(taken), body, "the body"); why != "" {
			b.t.Errorf("%s %s accepted a body that does not fit its description: %s: %.300s", route.Method, route.Path, why, sent)
		}
	}
	responses := op["responses"].(map[string]any)
	response, known := responses[fmt.Sprint(a.StatusCode)].(map[string]any)
	if !known {
		if !strings.Contains(route.Path, "vendor_passthru") { // whose methods say their status
			b.t.Errorf("%s %s answered %d, which its description does not have: set Success of the route", route.Method, route.Path, a.StatusCode)
		}
		return
	}
	shown := schemaOf(response)
	body = nil
	if shown == nil || json.Unmarshal([]byte(a.body), &body) != nil {
		return
	}
	if why := (fitting{doc: doc}).fits(shown, body, "the answer"); why != "" {
		b.t.Errorf("%s %s does not fit its description: %s", route.Method, route.Path, why)
	}
}

// schemaOf is what describes the JSON of a body that is described; nil: it has none.
func schemaOf(described map[string]any) map[string]any {
	content, _ := described["content"].(map[string]any)
	media, _ := content["application/json"].(map[string]any)
	described, _ = media["schema"].(map[string]any)
	return described
}

// Each argument is taken since the version that is described, and not before.
func TestOpenAPIVersions(t *testing.T) {
	doc := described31()
	b, newer := newGuarded(t), 0
	minor := func(described any) (n int) {
		if _, err := fmt.Sscanf(described.(string), "1.%d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, resource := range b.server.resources {
		for i := range resource.Routes {
			route := &resource.Routes[i]
			if strings.Contains(route.Path, "vendor_passthru") || route.Path == "openapi" { // as in TestOpenAPIArguments
				continue
			}
			op := doc["paths"].(map[string]any)[strings.TrimSuffix("/v1/"+route.Path, "/")].(map[string]any)[strings.ToLower(route.Method)].(map[string]any)
			path, body := route.sample()
			path, _, _ = strings.Cut(path, "?")
			for _, p := range op["parameters"].([]any) {
				param := p.(map[string]any)
				name := param["name"].(string)
				if param["in"] != "query" || name == "watch" { // which begins a stream
					continue
				}
				value := "1"
				if strings.HasPrefix(name, "node") {
					value = nodeID
				}
				at := func(minor int) answer {
					return b.do(route.Method, path+"?"+name+"="+value, fmt.Sprintf("1.%d", minor), body, "X-Who", "system "+adminRoles+",service")
				}
				since := minor(param["x-since"])
				if a := at(since); a.StatusCode == 406 || strings.Contains(a.body, "Unexpected") {
					t.Errorf("%s %s: %s is described since 1.%d: status %d %.200s", route.Method, route.Path, name, since, a.StatusCode, a.body)
				}
				if since == minor(op["x-since"]) {
					continue
				}
				if a := at(since - 1); a.StatusCode < 400 {
					t.Errorf("%s %s: %s is described since 1.%d, and taken before: status %d %.200s", route.Method, route.Path, name, since, a.StatusCode, a.body)
				}
				newer++
			}
		}
	}
	if newer < 20 {
		t.Errorf("only %d arguments are newer than their routes", newer)
	}
}

// Each member of an action's body that is described is taken, and others are refused.
func TestOpenAPIBodies(t *testing.T) {
	b, members := newGuarded(t), 0
	for _, resource := range b.server.resources {
		for i := range resource.Routes {
			route := &resource.Routes[i]
			if route.Takes["additionalProperties"] != false {
				continue
			}
			known := route.Takes["properties"].(schema.Members)
			path, _ := route.sample()
			taken := func(name string) (bool, answer) {
				body := map[string]any{name: "x"}
				needed, _ := route.Takes["required"].([]string)
				for _, needed := range needed {
					body[needed] = "x"
				}
				text, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				a := b.as("system "+adminRoles+",service", route.Method, path, string(text))
				return !strings.Contains(a.body, "Unexpected arguments") && !strings.Contains(a.body, "unexpected)"), a
			}
			for name := range known {
				if taken, a := taken(name); !taken {
					t.Errorf("%s %s: %s is described, and refused: %d %.200s", route.Method, route.Path, name, a.StatusCode, a.body)
				}
				members++
			}
			if taken, a := taken("nonsense"); taken && a.StatusCode < 400 {
				t.Errorf("%s %s takes anything: %d %.200s", route.Method, route.Path, a.StatusCode, a.body)
			}
		}
	}
	if members < 25 {
		t.Errorf("only %d members are described", members)
	}
}

// Each argument that is described is taken, and each that is taken is described.
func TestOpenAPIArguments(t *testing.T) {
	doc := described31()
	known, described := map[string]bool{}, map[string]map[string]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			of := map[string]bool{}
			for _, p := range o.(map[string]any)["parameters"].([]any) {
				if param := p.(map[string]any); param["in"] == "query" {
					known[param["name"].(string)], of[param["name"].(string)] = true, true
				}
			}
			described[strings.ToUpper(method)+" "+path] = of
		}
	}
	b, routes := newGuarded(t), 0
	for _, resource := range b.server.resources {
		for i := range resource.Routes {
			route := &resource.Routes[i]
			if strings.Contains(route.Path, "vendor_passthru") || route.Path == "openapi" { // methods have arguments of their own; the other is openapi.json
				continue
			}
			key := route.Method + " " + strings.TrimSuffix("/v1/"+route.Path, "/")
			path, body := route.sample()
			taken := func(name string) (bool, answer) {
				a := b.as("system "+adminRoles+",service", route.Method, path+"?"+name+"=1", body)
				return !strings.Contains(a.body, "Unexpected arguments"), a
			}
			if anything, _ := taken("nonsense"); anything { // as Ironic's does
				continue
			}
			routes++
			for name := range known {
				if name == "watch" { // which begins a stream
					continue
				}
				if taken, a := taken(name); taken != described[key][name] {
					t.Errorf("%s: argument %s is taken: %t, is described: %t; status %d %.150s", key, name, taken, described[key][name], a.StatusCode, a.body)
				}
			}
		}
	}
	if routes < 40 {
		t.Errorf("only %d routes refuse arguments that nobody knows", routes)
	}
}
