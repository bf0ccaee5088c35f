package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// inner is a server on rackd's own machine, which only programs there may reach. It notes what it is asked.
type inner struct {
	mu   sync.Mutex
	asks []string
}

const innerPort, outerPort = 8019, 8020

func (i *inner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.asks = append(i.asks, r.Method+" "+r.URL.String())
	i.mu.Unlock()
	fmt.Fprint(w, "what only programs on this host may read")
}

// all is what it was asked.
func (i *inner) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.asks)
}

// aRedirect is a way to the inner server.
const aRedirect = "a redirect"

// inward starts an inner server at rackd-b, and one of the tenant's own which sends on to it. It returns addresses that lead there.
func (y *yard) inward(t *testing.T) (i *inner, ways map[string]string) {
	t.Helper()
	i = &inner{}
	l, err := y.hosts["rackd-b"].Listen("tcp", fmt.Sprintf("127.0.0.1:%d", innerPort))
	if err != nil {
		t.Fatal(err)
	}
	out, err := y.hosts["stranger"].Listen("tcp", y.hosts["stranger"].At(outerPort))
	if err != nil {
		t.Fatal(err)
	}
	on := http.RedirectHandler(fmt.Sprintf("http://127.0.0.1:%d/redirected", innerPort), http.StatusFound)
	for at, h := range map[net.Listener]http.Handler{l: i, out: on} {
		srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
		go srv.Serve(at)
		t.Cleanup(func() { srv.Close() })
	}
	return i, map[string]string{"loopback": fmt.Sprintf("http://127.0.0.1:%d/x", innerPort), aRedirect: fmt.Sprintf("http://%s:%d/x", addresses["stranger"], outerPort)}
}

// A tenant names addresses that lead to rackd's own machine, in each field whose address rackd or the BMC reads, and files of that machine.
// Nothing is asked there, the BMC is told of none, and no answer tells what is there.
func TestAddressesThatLeadToRackdItself(t *testing.T) {
	long(t)
	y, ctx := theYard(t), t.Context()
	b := y.drivenBMC(t, 9442)
	id := y.driven(ctx, t, b, "inward", nil)
	owner := y.operator.as(y.token("owners", "tenant-owner"))
	i, ways := y.inward(t)
	const sum, media = "0000000000000000000000000000000000000000000000000000000000000001", "redfish-virtual-media"
	image := func(source, checksum string) map[string]any {
		return map[string]any{"image_source": source, "image_checksum": checksum, "image_disk_format": "raw"}
	}
	installer := func(more map[string]any) map[string]any {
		at := "http://" + addresses["operator"] + ":8000/file"
		all := map[string]any{"kernel": at, "ramdisk": at, "stage2": at, "image_source": at}
		for name, v := range more {
			all[name] = v
		}
		return all
	}
	whole := image(y.imageURL(), y.images.sha256)
	type attempt struct {
		name, deploy, boot string
		instance, driver   map[string]any
	}
	var tries []attempt
	for way, at := range ways {
		for _, a := range []attempt{
			{"boot_iso", "ramdisk", media, map[string]any{"boot_iso": at}, nil},
			{"kernel", "ramdisk", media, map[string]any{"kernel": at, "ramdisk": at}, nil},
			{"image_source", "direct", media, image(at, sum), nil},
			{"image_checksum", "direct", media, image(y.imageURL(), at+"/SHA256SUMS"), nil},
			{"a proxy", "direct", media, image("http://images.example/a.raw", sum), map[string]any{"image_http_proxy": at}},
			{"deploy_kernel", "direct", "ipxe", whole, map[string]any{"deploy_kernel": at, "deploy_ramdisk": at}},
			{"deploy_iso", "direct", media, whole, map[string]any{"deploy_iso": at}},
			{"stage2", "anaconda", "ipxe", installer(map[string]any{"stage2": at}), nil},
			{"ks_template", "anaconda", "ipxe", installer(map[string]any{"ks_template": at}), nil},
			{"the installer's image", "anaconda", "ipxe", installer(map[string]any{"image_source": at, "image_checksum": sum}), nil},
		} {
			if way == aRedirect && (a.name == "boot_iso" || a.name == "deploy_iso") {
				continue // the BMC follows those by itself
			}
			a.name += " by " + way
			tries = append(tries, a)
		}
	}
	files := map[string]string{"there": "/etc/passwd", "not there": "/etc/no-such-file", "a key": y.file("fleet.key")}
	for name, file := range files {
		at := "file://" + file
		tries = append(tries, attempt{"boot_iso, a file " + name, "ramdisk", media, map[string]any{"boot_iso": at}, nil},
			attempt{"image_source, a file " + name, "direct", media, map[string]any{"image_source": at, "image_disk_format": "raw"}, nil},
			attempt{"kernel, a file " + name, "ramdisk", media, map[string]any{"kernel": at, "ramdisk": at}, nil},
			attempt{"deploy_kernel, a file " + name, "direct", "ipxe", whole, map[string]any{"deploy_kernel": at, "deploy_ramdisk": at}})
	}
	tries = append(tries, attempt{"a registry", "direct", media, map[string]any{"image_source": fmt.Sprintf("oci://127.0.0.1:%d/a/b:latest", innerPort), "image_disk_format": "raw"}, nil})
	said := map[string]string{}
	var went []string
	for _, a := range tries {
		y.names(ctx, t, owner, id, a.deploy, a.boot, a.instance, a.driver)
		err := owner.provision(ctx, id, "active", nil)
		if err != nil {
			said[a.name] = err.Error()
		} else {
			n, wait := y.settled(ctx, &enrolled{id: id}, deployEnds)
			if said[a.name] = n.LastError; wait != nil || n.State == "active" {
				went = append(went, fmt.Sprintf("%s: %s %v", a.name, n.State, wait))
			}
			if err := errors.Join(y.operator.provision(ctx, id, "deleted", nil), y.operator.awaits(ctx, id, "available", time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %.400s", a.name, said[a.name])
		if image := b.image(cdAt) + b.image(stickAt); strings.Contains(image, "127.0.0.1") {
			went = append(went, a.name+": the BMC is told "+image)
		}
		for field := range a.driver {
			if err := y.operator.persist(ctx, "PATCH", "/v1/nodes/"+id, []map[string]any{{"op": "remove", "path": "/driver_info/" + field}}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	judge(t, line{12, tenant, fmt.Sprintf("%d addresses that lead to rackd's own machine", len(tries)), fmt.Sprintf("%q asked there, %q went on", i.all(), went), "none", len(i.all()) > 0 || len(went) > 0})
	var tells []string
	for _, field := range []string{"boot_iso", "image_source", "kernel", "deploy_kernel"} {
		words := func(which string) string {
			return strings.ReplaceAll(strings.ReplaceAll(said[field+", a file "+which], files[which], "FILE"), "deploy_kernel into", "deploy_ramdisk into")
		}
		if words("there") != words("not there") {
			tells = append(tells, field)
		}
	}
	judge(t, line{5, tenant, "file:// of rackd's machine: which files are there", fmt.Sprintf("told apart by %q", tells), "none", len(tells) > 0})

	// The way was open: what may be had is fetched.
	y.names(ctx, t, owner, id, "ramdisk", media, map[string]any{"boot_iso": "http://" + addresses["operator"] + ":8000/instance.iso"}, nil)
	if err := owner.provision(ctx, id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if n, err := y.settled(ctx, &enrolled{id: id}, deployEnds); err != nil || n.State != "active" {
		t.Errorf("an image that may be had: %s %q %v", n.State, n.LastError, err)
	}
}

// names has a node's owner say what the next deploy is of.
func (y *yard) names(ctx context.Context, t *testing.T, owner *caller, id, deploy, boot string, instance, driver map[string]any) {
	t.Helper()
	ops := []map[string]any{{"op": "replace", "path": "/deploy_interface", "value": deploy}, {"op": "replace", "path": "/boot_interface", "value": boot},
		{"op": "replace", "path": "/instance_info", "value": instance}}
	for field, v := range driver {
		ops = append(ops, map[string]any{"op": "add", "path": "/driver_info/" + field, "value": v})
	}
	if err := owner.persist(ctx, "PATCH", "/v1/nodes/"+id, ops, nil); err != nil {
		t.Fatal(err)
	}
}
