package sites_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

func TestWhichSiteServesAGroup(t *testing.T) {
	m, err := sites.NewMap([]sites.Site{{Name: "east", Groups: []string{"Rack1", ""}}, {Name: "west"}})
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]string{"rack1": "east", "RACK1": "east", "": "east", "rack9": "west"} {
		if got := m.SiteOf(group); got != want {
			t.Errorf("group %q: site %q, want %q", group, got, want)
		}
	}
	for _, wrong := range [][]sites.Site{
		{{Name: "a"}, {Name: "a", Groups: []string{"g"}}},
		{{Name: "a"}, {Name: "b"}},
		{{Name: "a", Groups: []string{"g"}}, {Name: "b", Groups: []string{"G"}}},
	} {
		if _, err := sites.NewMap(wrong); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}

func TestParse(t *testing.T) {
	if s, err := sites.Parse("east=a, B"); err != nil || s.Name != "east" || len(s.Groups) != 2 || s.Groups[1] != "b" {
		t.Errorf("site %+v, error %v", s, err)
	}
	if _, err := sites.Parse("ea st"); err == nil {
		t.Error("a name with a space was accepted")
	}
}

// A site whose work fails is opened again.
func TestSiteIsOpenedAgain(t *testing.T) {
	srv, _ := bustest.Server(t, t.TempDir())
	m, err := sites.NewMap(nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := bustest.Connect(t, srv)
	set := sites.NewSet(m, func(string) *nats.Conn { return conn }, slog.New(slog.DiscardHandler))
	if set.Status()[0].Open {
		t.Error("open before Run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	times := 0
	err = set.Run(ctx, func(ctx context.Context, site *bus.Site) error {
		if times++; times == 1 {
			return errors.New("the site went away")
		}
		if !set.Status()[0].Open {
			t.Error("not open while its work runs")
		}
		cancel()
		return nil
	})
	if err != nil || times != 2 {
		t.Errorf("ran %d times, error %v", times, err)
	}
	if _, err := set.Conn("any"); err != nil {
		t.Error(err)
	}
}
