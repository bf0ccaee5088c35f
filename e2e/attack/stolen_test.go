package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/e2e/faults/process"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/membership"
)

// far is a site of its own, one of whose servers is in the wrong hands: the thief has its folder, says what it likes in
// the site's account, reads all that is there, and deletes what it likes.
type far struct {
	*yard
	js     jetstream.JetStream
	nc     *nats.Conn
	folder string           // the stolen one
	site   *process.Process // the server that is the site's own
}

// stolenSite is the yard's far site, once it is there.
var stolenSite *far

// far has the site start, with the rackd of groupC and the thief's server.
func (y *yard) far(ctx context.Context, t *testing.T) *far {
	t.Helper()
	if stolenSite != nil {
		return stolenSite
	}
	f := &far{yard: y, folder: y.file("member-far-2")}
	for _, s := range []string{"far-1", "far-2"} { // the second one's program never runs
		if err := y.join(ctx, s, s, "bus", "--site", farSite, addresses[s]); err != nil {
			t.Fatal(err)
		}
		if s == "far-2" {
			continue
		}
		f.site = y.daemon(s, y.hosts[s], y.ironyard, "site", "serve", "--dir", y.file("member-"+s), "--listen", addresses[s])
		if err := f.site.Start(); err != nil {
			t.Fatal(err)
		}
	}
	y.lateRackd(ctx, t, "rackd-c", farSite, groupC)
	f.connect(ctx, t)
	stolenSite = f
	return f
}

// connect starts a server that shows the stolen credentials to the hub, checks nothing and lets its client do
// everything, and connects to it.
func (f *far) connect(ctx context.Context, t *testing.T) {
	t.Helper()
	identity := filepath.Join(f.folder, membership.IdentityFile)
	config := fmt.Sprintf(`server_name: "thief"
listen: "127.0.0.1:4222"
leafnodes { reconnect: "1s", remotes: [ { urls: ["tls://%s:%s"], credentials: %q, tls { cert_file: %q, key_file: %[4]q, ca_file: %[5]q } } ] }
`, addresses["hub"], membership.LeafPort, filepath.Join(f.folder, membership.CredentialsFile), identity, filepath.Join(f.folder, membership.FleetFile))
	if err := os.WriteFile(f.file("thief.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server := f.daemon("thiefs-server", f.hosts["far-2"], f.programs.NATS, "-c", f.file("thief.conf"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if err := server.Await(ctx, func(context.Context) (err error) {
		f.nc, err = nats.Connect("nats://127.0.0.1:4222", nats.SetCustomDialer(dialer{f.hosts["far-2"]}), nats.MaxReconnects(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.ends = append(f.ends, f.nc.Close)
	var err error
	if f.js, err = jetstream.NewWithDomain(f.nc, farSite); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, 30*time.Second, func(ctx context.Context) error {
		_, err := f.js.KeyValue(ctx, bus.NodesBucket)
		return err
	}); err != nil {
		t.Fatalf("the stolen server's link: %v", err)
	}
}

// value is what lies under a key now.
func (f *far) value(ctx context.Context, bucket, key string) ([]byte, error) {
	kv, err := f.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, err
	}
	e, err := kv.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return e.Value(), nil
}

// keys is the subject of a key, as it is written over the hub.
func (f *far) keys(bucket, key string) string {
	return "$JS." + farSite + ".API.$KV." + bucket + "." + key
}

// write puts bytes under a key, whatever lies there.
func (f *far) write(ctx context.Context, t *testing.T, bucket, key string, body []byte) {
	t.Helper()
	if _, err := f.js.Publish(ctx, f.keys(bucket, key), body); err != nil {
		t.Fatalf("the stolen server cannot write %s of its own site: %v", bucket, err)
	}
}

// text is v as JSON.
func text(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// machineOf enrols a machine of the far site and makes it available.
func (f *far) machineOf(ctx context.Context, t *testing.T, i int) *enrolled {
	t.Helper()
	m, err := f.startMachine(ctx, fmt.Sprintf("far%d", i), networkOf(4, i), "rackd-c")
	if err != nil {
		t.Fatal(err)
	}
	e := f.enrolMachine(ctx, t, m, groupC, nil)
	f.available(ctx, t, e)
	return e
}

// dialled counts who connects to the address of the stolen server.
func (f *far) dialled(t *testing.T) (count *atomic.Int64, stop func()) {
	t.Helper()
	l, err := f.hosts["far-2"].Listen("tcp", addresses["far-2"]+":"+membership.ClientPort)
	if err != nil {
		t.Fatal(err)
	}
	count = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				count.Add(1)
				c.Close()
			}
		}
	}()
	return count, func() { l.Close() }
}
