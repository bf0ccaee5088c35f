package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// cells are all values of all tables of the database, with the names of their tables.
func (b *bench) cells() map[string][]string {
	b.t.Helper()
	tables, err := b.db.QueryContext(b.t.Context(), "SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			b.t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := errors.Join(tables.Err(), tables.Close()); err != nil {
		b.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, name := range names {
		rows, err := b.db.QueryContext(b.t.Context(), `SELECT * FROM "`+name+`"`)
		if err != nil {
			b.t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			b.t.Fatal(err)
		}
		for rows.Next() {
			values, at := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				at[i] = &values[i]
			}
			if err := rows.Scan(at...); err != nil {
				b.t.Fatal(err)
			}
			for _, v := range values {
				if raw, is := v.([]byte); is {
					v = string(raw)
				}
				out[name] = append(out[name], fmt.Sprint(v))
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			b.t.Fatal(err)
		}
	}
	return out
}

// stepSecrets are arguments of a step whose secrets are of all kinds and at all depths.
const stepSecrets = `{"level":"1","password":"hunter2-text","deep":{"api_token":"hunter2-deep"},"users":[{"name":"root","secret":"hunter2-list"}],"auth_key":{"of":"hunter2-object"},"passphrase":7311337}`

// hasSecret reports whether text has one of the secrets of stepSecrets in clear.
func hasSecret(text string) bool {
	return strings.Contains(text, "hunter2") || strings.Contains(text, "7311337")
}

// A step's arguments that are named like secrets are sealed wherever they lie, and masked in every answer.
func TestSecretsOfStepsAreSealedAndMasked(t *testing.T) {
	b := newBench(t)
	b.addNode()
	step := `"interface":"raid","step":"create_configuration","args":` + stepSecrets
	var answers []answer
	ask := func(status int, method, path, body string) {
		answers = append(answers, b.want(status, method, path, "1.115", body))
	}
	const template, runbook = "/v1/deploy_templates/CUSTOM_T", "/v1/runbooks/CUSTOM_T"
	ask(201, "POST", "/v1/deploy_templates", `{"name":"CUSTOM_T","steps":[{`+step+`,"priority":10}]}`)
	ask(201, "POST", "/v1/runbooks", `{"name":"CUSTOM_T","steps":[{`+step+`,"order":1}]}`)
	b.want(204, "PUT", runbook+"/traits/CUSTOM_T", "1.115", "")
	ask(200, "GET", template, "")
	ask(200, "GET", runbook, "")
	ask(200, "GET", "/v1/runbooks?detail=true", "")
	ask(200, "PATCH", template, `[{"op":"replace","path":"/steps/0/args/level","value":"0"}]`)
	ask(200, "PATCH", runbook, `[{"op":"replace","path":"/steps","value":[{`+strings.NewReplacer("hunter2-text", hidden).Replace(step)+`,"order":2}]}]`)
	b.want(400, "PATCH", template, "1.115", `[{"op":"replace","path":"/steps/0/step","value":"delete_configuration"}]`) // another step may show it
	b.want(400, "POST", "/v1/deploy_templates", "1.115", `{"name":"CUSTOM_U","steps":[{"interface":"raid","step":"x","args":{"password":"******"},"priority":1}]}`)

	b.move("n1", provision.Manageable, "", nil)
	ask(202, "PUT", "/v1/nodes/n1/states/provision", `{"target":"clean","clean_steps":[{`+step+`}]}`)
	ask(200, "GET", "/v1/nodes/n1", "")
	ask(200, "GET", "/v1/nodes/n1/history?detail=true", "")
	w := b.work("n1")
	key, err := b.server.Key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	label := seal.Label{Kind: seal.StepArgument, Of: nodeID, Field: "raid.create_configuration", Work: w.ID}
	args, err := key.OpenArgs(label, w.Args.Steps[0].Args)
	if err != nil || args["password"] != "hunter2-text" || args["passphrase"] != 7311337.0 || args["level"] != "1" ||
		fmt.Sprint(args["deep"], args["users"], args["auth_key"]) != "map[api_token:hunter2-deep] [map[name:root secret:hunter2-list]] map[of:hunter2-object]" {
		t.Errorf("the rack opens %v, %v", args, err)
	}
	for what, l := range map[string]seal.Label{"work": {Kind: label.Kind, Of: label.Of, Field: label.Field, Work: "other"},
		"step": {Kind: label.Kind, Of: label.Of, Field: "raid.delete_configuration", Work: w.ID}} {
		if args, err := key.OpenArgs(l, w.Args.Steps[0].Args); err == nil {
			t.Errorf("for another %s they open as %v", what, args)
		}
	}

	for name, state := range map[string]provision.State{"n2": provision.Manageable, "n3": provision.Available} {
		b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"`+name+`","driver":"fake-hardware"}`)
		b.want(204, "PUT", "/v1/nodes/"+name+"/traits/CUSTOM_T", "1.115", "")
		b.move(name, state, "", nil)
	}
	ask(202, "PUT", "/v1/nodes/n2/states/provision", `{"target":"clean","runbook":"CUSTOM_T"}`)
	w = b.work("n2")
	label.Of, label.Work = w.Node, w.ID
	if args, err := key.OpenArgs(label, w.Args.Steps[0].Args); err != nil || args["password"] != "hunter2-text" {
		t.Errorf("of the runbook the rack opens %v, %v", args, err)
	}
	b.want(200, "PATCH", "/v1/nodes/n3", "1.115", `[{"op":"add","path":"/instance_info/traits","value":["CUSTOM_T"]}]`)
	ask(202, "PUT", "/v1/nodes/n3/states/provision", `{"target":"active"}`)
	w = b.work("n3")
	label.Of, label.Work = w.Node, w.ID
	if args, err := key.OpenArgs(label, w.Args.Steps[0].Args); err != nil || args["password"] != "hunter2-text" || args["level"] != "0" {
		t.Errorf("of the template the rack opens %v, %v", args, err)
	}

	for _, a := range answers {
		if hasSecret(a.body) || strings.Contains(a.body, seal.Prefix) {
			t.Errorf("an answer shows %s", a.body)
		}
	}
	for table, values := range b.cells() {
		for _, v := range values {
			if hasSecret(v) {
				t.Errorf("table %s holds %.300s", table, v)
			}
		}
	}
	if hasSecret(b.log.String()) {
		t.Error("the log shows them")
	}
}
