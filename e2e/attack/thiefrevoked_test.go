package attack

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// A stolen server is revoked: it renews nothing, the hub ends its link, and rackds do not dial it, all as soon as the others
// have renewed. Until then it could do all of it. This is the last attack at the site: its file sorts behind the others.
func TestStolenServerIsRevoked(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	stolen := y.file("stolen-far-2") // a copy, which renews beside the one that the thief's server runs from
	if err := os.CopyFS(stolen, os.DirFS(f.folder)); err != nil {
		t.Fatal(err)
	}
	renew := func(host, folder string) error {
		_, err := y.run(ctx, host, y.ironyard, "site", "renew", "--dir", folder)
		return err
	}
	if err := renew("far-2", stolen); err != nil {
		t.Fatalf("the stolen folder does not renew even before it is revoked: %v", err)
	}
	// lost has the site's rackd lose its bus, and returns how often the stolen server's address was dialled until it has it again.
	lost := func() int64 {
		t.Helper()
		count, stop := f.dialled(t)
		defer stop()
		if err := f.site.Stop(); err != nil {
			t.Fatal(err)
		}
		until(ctx, 5*time.Second, func(context.Context) error { // it tries one server each half second
			if count.Load() == 0 {
				return errNotYet
			}
			return nil
		})
		if err := f.site.Start(); err != nil {
			t.Fatal(err)
		}
		if err := until(ctx, 40*time.Second, func(ctx context.Context) error { return y.knows(ctx, "rackd-c") }); err != nil {
			t.Fatal(err)
		}
		return count.Load()
	}
	if lost() == 0 {
		t.Error("rackd does not dial the stolen server even before it is revoked")
	}
	linked := func(ctx context.Context) error { _, err := f.js.KeyValue(ctx, bus.NodesBucket); return err }
	if err := until(ctx, 30*time.Second, linked); err != nil {
		t.Fatalf("the stolen server's link: %v", err)
	}
	if _, err := y.run(ctx, "central", y.programs.Central, "member", "revoke", "bus", farSite+"-"+addresses["far-2"], "--database", y.database(), "--key-file", y.file("fleet.key")); err != nil {
		t.Fatal(err)
	}
	err := renew("far-2", stolen)
	judge(t, line{16, stolenServer, "renew once it is revoked", fmt.Sprintf("renewed: %t", err == nil), "refused", err == nil || !strings.Contains(err.Error(), "revoked")})
	for _, m := range []string{"hub", "far-1", "rackd-c"} {
		if err := renew(m, y.file("member-"+m)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	err = until(ctx, 20*time.Second, func(context.Context) error {
		asking, cancel := context.WithTimeout(ctx, time.Second) // not cut short by the limit, which would seem to be the link's end
		defer cancel()
		if linked(asking) == nil {
			return errNotYet
		}
		return nil
	})
	judge(t, line{17, stolenServer, "its link to the hub once it is revoked and the hub has renewed", fmt.Sprintf("ended after %.0f s: %t", time.Since(began).Seconds(), err == nil), "ended", err != nil})
	dialled := lost()
	judge(t, line{17, stolenServer, "be dialled by rackds that have renewed", fmt.Sprintf("%d connections", dialled), "0", dialled > 0})
}
