package sites_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

func TestFailoverIsChecked(t *testing.T) {
	two := []sites.Site{{Name: "east", Groups: []string{"a", "b", "c"}}, {Name: "west"}}
	m, err := sites.NewMap(two, sites.Failover{Group: "A", To: []string{"b", "C"}}, sites.Failover{Group: "", To: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Failover("a"); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("failover of a: %q", got)
	}
	if got := m.Failover("b"); got != nil {
		t.Errorf("failover of b, which has none: %q", got)
	}
	for text, list := range map[string][]sites.Failover{
		"names the group itself": {{Group: "a", To: []string{"A"}}},
		"twice":                  {{Group: "a", To: []string{"b", "b"}}},
		"configured twice":       {{Group: "a", To: []string{"b"}}, {Group: "A", To: []string{"c"}}},
		`which site "west"`:      {{Group: "a", To: []string{"x"}}},
	} {
		if _, err := sites.NewMap(two, list...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: error %v, want one with %q", list, err, text)
		}
	}
}

func TestParseFailover(t *testing.T) {
	for text, want := range map[string]sites.Failover{
		"Rack-A=rack-b, rack-c": {Group: "rack-a", To: []string{"rack-b", "rack-c"}},
		"=rack-b":               {Group: "", To: []string{"rack-b"}},
	} {
		if got, err := sites.ParseFailover(text); err != nil || got.Group != want.Group || !slices.Equal(got.To, want.To) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := sites.ParseFailover("rack-a"); err == nil || !strings.Contains(err.Error(), "GROUP=GROUP") {
		t.Errorf("a failover without groups: %v", err)
	}
}

// What the site's bus says of the groups is what the configuration says, whatever it
// said before; other sites' groups and those without failover are not there.
func TestGroupsAreWrittenWhenTheSiteOpens(t *testing.T) {
	srv, _ := bustest.Server(t, t.TempDir())
	conn := bustest.Connect(t, srv)
	site, err := bus.Open(t.Context(), conn, "", bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for group, body := range map[string]string{"old": `{"name":"old","failover":["a"]}`, "a": `{"name":"a","failover":["old"]}`} {
		if _, err := site.Groups.Put(t.Context(), bus.GroupKey(group), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := sites.NewMap([]sites.Site{{Groups: []string{"a", "b", ""}}, {Name: "elsewhere", Groups: []string{"c", "d"}}},
		sites.Failover{Group: "a", To: []string{"b", ""}}, sites.Failover{Group: "", To: []string{"a"}}, sites.Failover{Group: "c", To: []string{"d"}})
	if err != nil {
		t.Fatal(err)
	}
	var revision uint64
	for range 2 { // the second time there is nothing to write
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err = sites.NewSet(m, func(string) *nats.Conn { return conn }, slog.New(slog.DiscardHandler)).Run(ctx, func(ctx context.Context, opened *bus.Site) error {
			if opened.Name == "" {
				cancel()
			}
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var a, unnamed bus.Group
		e := read(t, site.Groups, bus.GroupKey("a"), &a)
		read(t, site.Groups, bus.GroupKey(""), &unnamed)
		if a.Name != "a" || !slices.Equal(a.Failover, []string{"b", ""}) || !slices.Equal(unnamed.Failover, []string{"a"}) {
			t.Errorf("group a %+v, the unnamed one %+v", a, unnamed)
		}
		for _, gone := range []string{"old", "c"} {
			if _, err := site.Groups.Get(t.Context(), bus.GroupKey(gone)); !errors.Is(err, jetstream.ErrKeyNotFound) {
				t.Errorf("group %s is there: %v", gone, err)
			}
		}
		if revision != 0 && e.Revision() != revision {
			t.Error("a key that was right has been written again")
		}
		revision = e.Revision()
	}
}

func read(t *testing.T, kv jetstream.KeyValue, key string, v any) jetstream.KeyValueEntry {
	t.Helper()
	e, err := kv.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("key %q: %v", key, err)
	}
	if err := json.Unmarshal(e.Value(), v); err != nil {
		t.Fatal(err)
	}
	return e
}
