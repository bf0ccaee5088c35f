package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// Paths of the virtual drives of a drivenBMC.
const (
	drivesAt = "/redfish/v1/Managers/1/VirtualMedia"
	cdAt     = drivesAt + "/CD"
	stickAt  = drivesAt + "/USB"
)

// drivenBMC is a BMC with a CD drive and one of a USB stick. Its address in the yard leads elsewhere when an attacker says so.
type drivenBMC struct {
	*redfishtest.BMC
	address string
	leads   atomic.Pointer[string]
	// refuses: it refuses to load images, and repeats what it was told.
	refuses atomic.Bool
}

// drivenBMC starts one on the operator's host.
func (y *yard) drivenBMC(t *testing.T, port uint16) *drivenBMC {
	t.Helper()
	tree := redfishtest.Tree{drivesAt: redfishtest.Links(cdAt, stickAt)}
	for at, kind := range map[string]string{cdAt: "CD", stickAt: "USBStick"} {
		tree[at] = map[string]any{"@odata.id": at, "Id": kind, "MediaTypes": []any{kind}, "Inserted": false, "Image": "",
			"Actions": map[string]any{"#VirtualMedia.InsertMedia": map[string]any{"target": at + "/Insert"}, "#VirtualMedia.EjectMedia": map[string]any{"target": at + "/Eject"}}}
	}
	b := &drivenBMC{BMC: redfishtest.Start(t, "Contoso", tree)}
	b.Do(func() { b.At["/redfish/v1/Managers/1"]["VirtualMedia"] = redfishtest.Link(drivesAt) })
	b.Write = func(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
		at, action := r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')], r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		drive := b.At[at]
		switch {
		case drive == nil || action != "Insert" && action != "Eject":
			return false
		case action == "Insert" && b.refuses.Load():
			redfishtest.Refuse(w, http.StatusBadRequest, fmt.Sprintf("The value '%v' of the property Image cannot be loaded.", body["Image"]))
			return true
		}
		drive["Image"], drive["Inserted"] = body["Image"], action == "Insert"
		if action == "Eject" {
			drive["Image"] = ""
		}
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	h := y.hosts["operator"]
	l, err := h.Listen("tcp", h.At(port))
	if err != nil {
		t.Fatal(err)
	}
	b.address = l.Addr().String()
	b.leadsTo(b.Listener.Addr())
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go join(conn, *b.leads.Load())
		}
	}()
	return b
}

// leadsTo has the address lead to another server from now on.
func (b *drivenBMC) leadsTo(a net.Addr) { text := a.String(); b.leads.Store(&text) }

func join(conn net.Conn, to string) {
	defer conn.Close()
	other, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer other.Close()
	go func() { io.Copy(other, conn); other.Close() }()
	io.Copy(conn, other)
}

// image is what is in a drive, as the BMC knows it.
func (b *drivenBMC) image(at string) (image string) {
	b.Do(func() { image, _ = b.At[at]["Image"].(string) })
	return image
}

// driven is a node of a drivenBMC whose key is pinned, with an owner and a lessee. Its instances are CDs.
func (y *yard) driven(ctx context.Context, t *testing.T, b *drivenBMC, name string, more map[string]any) (id string) {
	t.Helper()
	body := map[string]any{"name": name, "driver": "redfish", "conductor_group": groupB, "automated_clean": false, "boot_interface": "redfish-virtual-media", "deploy_interface": "ramdisk",
		"driver_info":   map[string]any{"redfish_address": "https://" + b.address, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password, "redfish_verify_ca": "pin"},
		"instance_info": map[string]any{"boot_iso": "http://" + addresses["operator"] + ":8000/instance.iso"}, "owner": "tenant-owner", "lessee": "tenant-lessee"}
	for k, v := range more {
		body[k] = v
	}
	var n node
	if err := y.operator.persist(ctx, "POST", "/v1/nodes", body, &n); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.persist(ctx, "POST", "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": fmt.Sprintf("02:00:00:5e:%02x:%02x", len(name), b.address[len(b.address)-1])}, nil); err != nil {
		t.Fatal(err)
	}
	y.available(ctx, t, &enrolled{id: n.UUID})
	return n.UUID
}

// thiefsBMC counts what is sent to a server with a key of the attacker's own.
func thiefsBMC(t *testing.T) (s *httptest.Server, requests *atomic.Int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	requests = new(atomic.Int64)
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, requests
}

// A stranger takes the address of a BMC whose key is pinned. The rackd that pinned it is killed. Tenants ask for another pin in all ways
// that they may try. Nothing is sent to the stranger.
func TestAStrangerTakesThePlaceOfABMC(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	b := y.drivenBMC(t, 9441)
	id := y.driven(ctx, t, b, "pinned", nil)
	pinned := func(ctx context.Context) error {
		n, err := y.operator.node(ctx, id)
		if keys := fmt.Sprint(n.Internal["driver_state"]); err == nil && !strings.Contains(keys, "redfish_verify_ca "+b.address) {
			err = fmt.Errorf("no key is pinned: %v", n.Internal)
		}
		return err
	}
	if err := until(ctx, time.Minute, pinned); err != nil {
		t.Fatal(err)
	}
	thief, requests := thiefsBMC(t)
	b.leadsTo(thief.Listener.Addr())
	asked := func() { y.operator.do(ctx, "GET", "/v1/nodes/"+id+"/management/boot_device", nil) } // rackd asks the BMC
	asked()
	rackd := y.rackds["rackd-b"]
	rackd.Kill()
	if err := rackd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := rackd.Await(ctx, func(ctx context.Context) error { return y.knows(ctx, "rackd-b") }); err != nil {
		t.Fatal(err)
	}
	said := ""
	if err := until(ctx, time.Minute, func(ctx context.Context) error {
		_, said, _ = y.operator.do(ctx, "GET", "/v1/nodes/"+id+"/management/boot_device", nil)
		if !strings.Contains(said, "another public key") {
			return fmt.Errorf("the rackd that takes over says %s", said)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	judge(t, line{143, onTheNetwork, "take the address of a pinned BMC, and kill its rackd", fmt.Sprintf("%d requests came", requests.Load()), "none", requests.Load() > 0})

	var done []string
	info := func(more map[string]any) map[string]any {
		all := map[string]any{"redfish_address": "https://" + b.address, "redfish_username": redfishtest.User, "redfish_password": "******", "redfish_verify_ca": "pin"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	set := func(path string, value any) map[string]any {
		return map[string]any{"op": "add", "path": path, "value": value}
	}
	for _, who := range []string{"tenant-owner", "tenant-lessee"} {
		caller := y.operator.as(y.token("owners", who))
		for name, ops := range map[string]any{
			"again":                   []any{set("/driver_info/redfish_verify_ca", "pin")},
			"in other letters":        []any{set("/driver_info/redfish_verify_ca", "\tPIN\n")},
			"by removing it first":    []any{map[string]any{"op": "remove", "path": "/driver_info/redfish_verify_ca"}, set("/driver_info/redfish_verify_ca", "pin")},
			"by removing it":          []any{map[string]any{"op": "remove", "path": "/driver_info/redfish_verify_ca"}},
			"unchecked":               []any{set("/driver_info/redfish_verify_ca", "false")},
			"no text":                 []any{set("/driver_info/redfish_verify_ca", false)},
			"another driver's":        []any{set("/driver_info/ilo_verify_ca", "pin")},
			"of no driver":            []any{set("/driver_info/_verify_ca", "pin")},
			"of a new word":           []any{set("/driver_info/new_verify_ca", "pin")},
			"as a whole":              []any{set("/driver_info", info(nil))},
			"as a whole, in letters":  []any{set("/driver_info", info(map[string]any{"redfish_verify_ca": " Pin"}))},
			"the address with a dot":  []any{set("/driver_info/redfish_address", "https://"+strings.Replace(b.address, ":", ".:", 1))},
			"an escaped path":         []any{set("/driver_info/redfish~1verify_ca", "pin"), set("/driver_info/redfish_verify_ca", "pin")},
			"copied":                  []any{map[string]any{"op": "copy", "from": "/driver_info/redfish_verify_ca", "path": "/driver_info/ilo_verify_ca"}},
			"moved":                   []any{map[string]any{"op": "move", "from": "/driver_info/redfish_verify_ca", "path": "/driver_info/ilo_verify_ca"}},
			"the internals":           []any{set("/driver_internal_info/bmc_keys_since", "9999999999")},
			"the internals' keys":     []any{set("/driver_internal_info/driver_state", map[string]any{})},
			"the place of the secret": []any{map[string]any{"op": "move", "from": "/driver_info/redfish_password", "path": "/driver_info/ilo_password"}},
		} {
			before, err := y.operator.node(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			status, _, err := caller.do(ctx, "PATCH", "/v1/nodes/"+id, ops)
			if err != nil {
				t.Fatal(err)
			}
			after, err := y.operator.node(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(before.Internal, before.DriverInfo) != fmt.Sprint(after.Internal, after.DriverInfo) {
				done = append(done, fmt.Sprintf("%s %s: %d", who, name, status))
			}
			asked()
		}
	}
	slices.Sort(done)
	judge(t, line{143, tenant, "have rackd forget the key of a BMC, or not look at it", fmt.Sprintf("%v, %d requests came", done, requests.Load()), "nothing sent", requests.Load() > 0})

	b.leadsTo(b.Listener.Addr()) // the way was open: the real one is let in again without a word
	if err := until(ctx, time.Minute, func(ctx context.Context) error {
		return y.operator.ask(ctx, "GET", "/v1/nodes/"+id+"/management/boot_device", nil, nil)
	}); err != nil {
		t.Error(err)
	}
}

// The config drive of an instance is served to its BMC, by an address that nothing else is told.
func TestConfigDriveOfAnotherTenant(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	b := y.drivenBMC(t, 9442)
	id := y.driven(ctx, t, b, "drive", nil)
	lessee, owner := y.operator.as(y.token("owners", "tenant-lessee")), y.operator.as(y.token("owners", "tenant-owner"))
	drive := map[string]any{"meta_data": map[string]any{"hostname": "h"}, "user_data": tenantSecret}
	if err := lessee.provision(ctx, id, "active", map[string]any{"configdrive": drive}); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.awaits(ctx, id, "active", 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	address := b.image(stickAt)
	at, code, found := strings.Cut(strings.TrimSuffix(address, "/configdrive.img"), "/media/"+id+"/")
	if !found || len(code) < 16 {
		t.Fatalf("the BMC was told %q", address)
	}
	reads := func(c *caller, method, path string, headers ...string) (status int, secret bool) {
		req, err := http.NewRequestWithContext(ctx, method, c.base, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path // as it is
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := c.web.Do(req)
		if err != nil {
			return 0, false
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, strings.Contains(string(body), tenantSecret)
	}
	stranger := y.stranger.at(at)
	path := "/media/" + id + "/" + code + "/configdrive.img"
	if status, secret := reads(stranger, "GET", path); status != 200 || !secret {
		t.Fatalf("who knows the address gets %d, %t", status, secret)
	}
	var told []string
	for name, c := range map[string]*caller{"its owner": owner, "its lessee": lessee, "an operator": y.operator} {
		for _, ask := range []string{"", "/vmedia", "/history?detail=true", "/states", "/inventory", "/management/boot_device", "/validate"} {
			if _, body, err := c.do(ctx, "GET", "/v1/nodes/"+id+ask, nil); err == nil && (strings.Contains(body, code) || strings.Contains(body, tenantSecret)) {
				told = append(told, name+" "+ask)
			}
		}
	}
	slices.Sort(told)
	judge(t, line{138, tenant, "learn the address of an instance's config drive by the API", fmt.Sprintf("%q", told), "nowhere", len(told) > 0})

	// Without the code: other codes, other nodes' paths, tricks with paths and ranges.
	var let []string
	other := map[byte]byte{'A': 'B'}[code[0]]
	if other == 0 {
		other = 'A'
	}
	for _, try := range []string{"/media/" + id + "/" + string(other) + code[1:] + "/configdrive.img", "/media/" + id + "/" + code[:len(code)-1] + "/configdrive.img", "/media/" + id + "/" + code + "=/configdrive.img",
		"/media/" + id + "//configdrive.img", "/media/" + id + "/configdrive.img", "/media/" + id + "/", "/media/", "/media/" + id + "/" + code + "/boot.iso", "/media/%2e%2e/" + code + "/configdrive.img",
		"/media/" + id + "/x/../configdrive.img", "//media/" + id + "/x/configdrive.img", "/media/00000000-0000-0000-0000-000000000000/" + code + "/configdrive.img"} {
		for _, part := range []string{"", "bytes=0-0", "bytes=-1", "bytes=0-1,1-2,2-3"} {
			if status, secret := reads(stranger, "GET", try, "Range", part); secret || status/100 == 2 {
				let = append(let, fmt.Sprintf("%s %s: %d", try, part, status))
			}
		}
	}
	for _, rackd := range []string{"rackd-a"} { // of another group, which has no key
		if status, secret := reads(y.stranger.at(fmt.Sprintf("http://%s:%d", addresses[rackd], webPort)), "GET", path); secret || status/100 == 2 {
			let = append(let, fmt.Sprintf("at %s: %d", rackd, status))
		}
	}
	judge(t, line{138, onTheNetwork, "read a config drive without its address", fmt.Sprintf("%q", let), "never", len(let) > 0})

	// With the address, as a BMC that lies: it costs rackd no more than its budget.
	rackd := y.rackds["rackd-b"]
	before, pid := memory(t, rackd, "VmRSS"), rackd.PID()
	flood, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	ranges := "bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", 10_000), ",")
	worked := make(chan bool)
	for range 64 {
		go func() {
			for flood.Err() == nil {
				reads(stranger, "GET", path, "Range", ranges)
			}
			worked <- true
		}()
	}
	for range 64 {
		<-worked
	}
	grown := memory(t, rackd, "VmRSS") - before
	judge(t, line{138, onTheNetwork, "flood a config drive with ranges, its address known", fmt.Sprintf("rackd grows by %d MiB, the same process %t", grown, rackd.PID() == pid), "256 MiB", grown > 256 || rackd.PID() != pid})

	// What was asked for stays with the BMC after a refusal, and the instance goes.
	b.refuses.Store(true)
	refused := lessee.ask(ctx, "POST", "/v1/nodes/"+id+"/vmedia", map[string]any{"device_type": "cdrom", "image_url": "http://reader:hunter2@" + addresses["operator"] + ":8000/x.iso?X-Signature=5ecret"}, nil)
	var shown string
	if err := until(ctx, 30*time.Second, func(ctx context.Context) error {
		n, err := y.operator.node(ctx, id)
		if shown = n.LastError; err == nil && shown == "" {
			err = errNotYet
		}
		return err
	}); err != nil {
		t.Fatalf("a refusal of the BMC is not told: %v; the request: %v", err, refused)
	}
	_, history, err := owner.do(ctx, "GET", "/v1/nodes/"+id+"/history?detail=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	spilled := strings.Contains(shown+history, "hunter2") || strings.Contains(shown+history, "5ecret")
	judge(t, line{138, tenant, "credentials of a URL that the BMC repeats", fmt.Sprintf("told: %t", spilled), "false", spilled})
	b.refuses.Store(false)
	if err := lessee.provision(ctx, id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	kept := 0
	if err := until(ctx, 2*time.Minute, func(ctx context.Context) error {
		n, err := y.operator.node(ctx, id)
		if err != nil {
			return err
		}
		if status, _ := reads(stranger, "GET", path); n.State == "available" && status/100 == 2 {
			kept++
		}
		if n.State != "available" || n.Reservation != "" {
			return errNotYet
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	status, secret := reads(stranger, "GET", path)
	judge(t, line{138, onTheNetwork, "read a config drive after its instance", fmt.Sprintf("%d, secret %t, in the drive %q", status, secret, b.image(stickAt)), "404", status/100 == 2 || secret || b.image(stickAt) != ""})
	log, err := json.Marshal(history)
	if err != nil || strings.Contains(string(log), code) {
		t.Errorf("the history has the code: %v", err)
	}
}
