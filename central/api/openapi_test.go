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

// fits says how a value does not fit a schema; empty: it fits. It knows the words of
// JSON Schema that the document uses.
func fits(doc, schema map[string]any, v any, where string) string {
	if ref, ok := schema["$ref"].(string); ok {
		return fits(doc, resolve(doc, ref), v, where)
	}
	if want := types(schema["type"]); want != nil && !slices.Contains(want, typeOf(v)) {
		return fmt.Sprintf("%s is of type %s, want %v", where, typeOf(v), want)
	}
	switch v := v.(type) {
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			p, known := props[name].(map[string]any)
			if !known && schema["additionalProperties"] == false {
				return where + " has " + name + ", which is not described"
			}
			if why := fits(doc, p, v[name], where+"."+name); known && why != "" {
				return why
			}
		}
		for _, name := range types(schema["required"]) {
			if _, given := v[name]; !given {
				return where + " lacks " + name
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, item := range v {
			if why := fits(doc, items, item, fmt.Sprintf("%s[%d]", where, i)); items != nil && why != "" {
				return why
			}
		}
	}
	return ""
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

// checkDescribed holds an answer against the description of its route.
func (b *bench) checkDescribed(route *Route, a answer, method string) {
	b.t.Helper()
	if a.StatusCode >= 300 || method == "HEAD" || method == "OPTIONS" {
		return
	}
	doc := described31()
	item := doc["paths"].(map[string]any)[strings.TrimSuffix("/v1/"+route.Path, "/")].(map[string]any)
	responses := item[strings.ToLower(route.Method)].(map[string]any)["responses"].(map[string]any)
	response, known := responses[fmt.Sprint(a.StatusCode)].(map[string]any)
	if !known {
		if !strings.Contains(route.Path, "vendor_passthru") { // whose methods say their status
			b.t.Errorf("%s %s answered %d, which its description does not have: set Success of the route", route.Method, route.Path, a.StatusCode)
		}
		return
	}
	content, _ := response["content"].(map[string]any)
	media, _ := content["application/json"].(map[string]any)
	var body any
	if media == nil || json.Unmarshal([]byte(a.body), &body) != nil {
		return
	}
	if why := fits(doc, media["schema"].(map[string]any), body, "the answer"); why != "" {
		b.t.Errorf("%s %s does not fit its description: %s", route.Method, route.Path, why)
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
