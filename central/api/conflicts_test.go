package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
)

// othersRequests are requests that write what belongs to no node, or more than one node.
var othersRequests = []struct{ method, path, body string }{
	{"POST", "/v1/nodes", `{"driver":"fake-hardware","name":"n9","driver_info":{"password":"open sesame"},
		"instance_info":{"configdrive":"drive","image_url":"i"}}`},
	{"PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/instance_info/configdrive","value":"drive"},{"op":"add","path":"/driver_info/password","value":"other"},
		{"op":"add","path":"/extra/l","value":{"m":[1]}},{"op":"add","path":"/extra/l/m/-","value":2}]`},
	{"POST", "/v1/chassis", `{"description":"c"}`},
	{"POST", "/v1/allocations", `{"name":"web","resource_class":"small"}`},
	{"POST", "/v1/deploy_templates", `{"name":"CUSTOM_T","steps":[{"interface":"deploy","step":"s","args":{"password":"p"},"priority":1}]}`},
	{"POST", "/v1/runbooks", `{"name":"CUSTOM_R","steps":[{"interface":"deploy","step":"s","args":{"password":"p"},"order":1}]}`},
	{"POST", "/v1/inspection_rules", `{"description":"d","actions":[{"op":"set-attribute","args":{"path":"/extra/a","value":"b"}}]}`},
	{"PUT", "/v1/nodes/n1/states/provision", `{"target":"clean","clean_steps":[{"interface":"deploy","step":"s","args":{"password":"p"}}]}`},
	{"PUT", "/v1/nodes/n1/states/provision", `{"target":"inspect"}`},
	{"PATCH", "/v1/ports/" + freePort, `[{"op":"add","path":"/portgroup_uuid","value":"` + ownGroup + `"}]`},
}

// chance is what differs from one run to the next: ids, times and what is sealed.
var chance = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.+Z]+|[A-Za-z0-9+/_-]{40,}=*|req-[0-9a-f-]+`)

// known are ids that a test gives.
var known = []string{nodeID, elsewhere, ownPort, freePort, ownGroup, connectorID, targetID, portOfElse}

func withoutChance(text string) string {
	return chance.ReplaceAllStringFunc(text, func(found string) string {
		if slices.Contains(known, found) {
			return found
		}
		return "?"
	})
}

// refill returns what gives a PostgreSQL the rows back that it holds now. No trigger hears of that.
func refill(t *testing.T, url string) func(t *testing.T) {
	t.Helper()
	run := func(t *testing.T, statements []string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.PgConn().Exec(t.Context(), strings.Join(statements, ";")).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	keep, again := []string{"CREATE SCHEMA kept"}, []string{"SET session_replication_role = replica"}
	for _, table := range texts(t, url, "SELECT format('%I (%s)', table_name, string_agg(quote_ident(column_name), ', ')) FROM information_schema.columns "+
		"WHERE table_schema = 'public' AND table_name <> 'schema_migrations' AND is_generated = 'NEVER' GROUP BY table_name") {
		name, columns, _ := strings.Cut(strings.TrimSuffix(table, ")"), " (")
		keep = append(keep, fmt.Sprintf("CREATE TABLE kept.%s AS SELECT %s FROM public.%[1]s", name, columns))
		again = append(again, fmt.Sprintf("DELETE FROM public.%s", name), fmt.Sprintf("INSERT INTO public.%s (%s) SELECT %[2]s FROM kept.%[1]s", name, columns))
	}
	run(t, keep)
	return func(t *testing.T) { t.Helper(); run(t, again) }
}

// texts is what a query finds in a PostgreSQL.
func texts(t *testing.T, url, query string) []string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	rows, err := c.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(query, err)
	}
	return found
}

// contents is all that a PostgreSQL holds, without what chance has put there.
func contents(t *testing.T, url string) (list []string) {
	t.Helper()
	var parts []string
	for _, table := range texts(t, url, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' "+
		"AND table_type = 'BASE TABLE' AND table_name <> 'schema_migrations'") {
		parts = append(parts, fmt.Sprintf("SELECT '%s ' || to_jsonb(r)::text FROM %s r", table, pgx.Identifier{table}.Sanitize()))
	}
	for _, row := range texts(t, url, strings.Join(parts, " UNION ALL ")) {
		list = append(list, withoutChance(row))
	}
	slices.Sort(list)
	return list
}

// Each request that writes is made of a PostgreSQL that refuses the first attempt of each transaction. So does one that finds another
// transaction in the way. The answer is that of a PostgreSQL which refuses nothing. So are the rows that are left, those of the audit, the
// history and the outbox among them. The waiting are told as often, racks are asked as often, and the log has as many lines.
func TestNothingIsDoneTwiceWhereTheDatabaseRefusesAtFirst(t *testing.T) {
	t.Parallel()
	postgres := ownPostgres(t)
	plain := postgres.Database(t)
	first, _ := ownedOn(enrolledOn(newBenchOn(t, plain)))
	if err := first.store.Close(); err != nil {
		t.Fatal(err)
	}
	conflicting := postgres.Copy(t, plain)
	storetest.Refuse(t, conflicting)
	again := map[string]func(*testing.T){plain: refill(t, plain), conflicting: refill(t, conflicting)}
	type request struct{ who, method, path, body string }
	var requests []request
	for _, r := range ownersRequests {
		requests = append(requests, request{ownerProject + " " + adminRoles, r.method, r.path, r.body})
	}
	for _, r := range othersRequests {
		requests = append(requests, request{"system " + adminRoles, r.method, r.path, r.body})
	}
	for i, r := range requests {
		t.Run(fmt.Sprint(i, " ", r.method, " ", r.path), func(t *testing.T) {
			type outcome struct {
				answer      string
				told, asked int
				log         int
				rows        []string
			}
			on := func(url string) (o outcome) {
				again[url](t)
				b := newBenchOn(t, url)
				b.server.Auth = wordOf{}
				asker := b.counted()
				a := b.as(r.who, r.method, r.path, r.body)
				if a.StatusCode/100 != 2 {
					t.Errorf("status %d: %s", a.StatusCode, a.body)
				}
				return outcome{fmt.Sprint(a.StatusCode, " ", withoutChance(a.body)), b.told, asker.done, strings.Count(b.log.String(), "\n"), contents(t, url)}
			}
			want := on(plain)
			before := storetest.Refusals(t, conflicting)
			got := on(conflicting)
			if storetest.Refusals(t, conflicting) == before {
				t.Error("the database has refused no transaction: the test shows nothing")
			}
			if got.answer != want.answer || got.told != want.told || got.asked != want.asked || got.log != want.log {
				t.Errorf("answer %s, told %d, asked %d, %d lines of log;\nwithout refusals %s, %d, %d, %d",
					got.answer, got.told, got.asked, got.log, want.answer, want.told, want.asked, want.log)
			}
			if !slices.Equal(got.rows, want.rows) {
				only := func(a, b []string) string {
					left, _ := json.MarshalIndent(slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) }), "", " ")
					return string(left)
				}
				t.Errorf("%d rows, without refusals %d; only with them %s\nonly without %s",
					len(got.rows), len(want.rows), only(got.rows, want.rows), only(want.rows, got.rows))
			}
		})
	}
}

// A PATCH moves a port, or a portgroup, to a node that it names by name. The transaction is run again, and the name is another node's by
// then: it goes to that one.
func TestTheNodeOfAPATCHIsLookedUpInEachAttempt(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+elsewhere+`","name":"n2","driver":"fake-hardware"}`)
	asked := []patch.Op{{Kind: patch.Replace, Path: "/node_uuid", Steps: []string{"node_uuid"}, Value: "n2"}}
	rename := func(id, name string) {
		b.move(id, provision.Enroll, provision.NoState, func(n *store.Node) { n.Name = name })
	}
	r := &Request{Version: microversion.Max, Request: httptest.NewRequestWithContext(t.Context(), "PATCH", "/v1/ports/"+ownPort, nil)}
	for _, want := range []string{elsewhere, nodeID} {
		err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			from, err := tx.Node(ctx, nodeID)
			if err != nil {
				return err
			}
			ops, err := b.server.relink(ctx, r, tx, asked, from)
			if err == nil && ops[0].Value != want {
				t.Errorf("it goes to %v, want %s", ops[0].Value, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		rename(elsewhere, "n3")
		rename(nodeID, "n2")
	}
}
