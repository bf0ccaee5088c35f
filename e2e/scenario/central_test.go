package scenario

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/netns"
	"github.com/ironyard/ironyard/protocol/provision"
)

// centralsScript is the file with the script that another DHCP server gives all machines.
const centralsScript = "central.ipxe"

// scriptOfThePage is the script of docs/networks.md, with central's address in it.
func scriptOfThePage(t *testing.T, central string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "networks.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?m)^    #!ipxe\n(    .*\n)+`).FindString(string(page))
	script := strings.ReplaceAll(strings.ReplaceAll("\n"+block, "\n    ", "\n")[1:], "http://CENTRAL:6385", central)
	if !strings.Contains(script, "chain --replace "+central+"/v1/drivers/") {
		t.Fatalf("the page has no such script: %q", script)
	}
	return script
}

// centralInside serves central's API in the rack's network until the test ends, and returns its URL and what was asked of it.
func centralInside(t *testing.T) (base string, asked func() string) {
	t.Helper()
	api, err := url.Parse(theRack.Operator.Base())
	if err != nil {
		t.Fatal(err)
	}
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	l, err := ns.Listen("tcp", net.JoinHostPort(theRack.Address().String(), "6385"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []string
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.In.RemoteAddr+" "+r.In.RequestURI)
		r.SetURL(api)
	}}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return "http://" + l.Addr().String(), func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(all, "\n")
	}
}

// anotherServer is dnsmasq, which gives addresses in the rack's network, and one script to iPXE. QEMU's card has iPXE as its ROM.
func anotherServer(ctx context.Context, t *testing.T, script string) {
	t.Helper()
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	first := theRack.Address()
	for range 219 { // behind the leases of rackds
		first = first.Next()
	}
	last := first
	for range 10 {
		last = last.Next()
	}
	cmd := ns.Command(ctx, "dnsmasq", "-k", "--conf-file=/dev/null", "--port=0", "--pid-file=", "--user=root", "--log-facility=-", "--log-dhcp", "--interface="+netns.Bridge, "--bind-interfaces",
		"--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"), "--dhcp-authoritative", fmt.Sprintf("--dhcp-range=%s,%s,1h", first, last),
		"--dhcp-match=set:ipxe,175", "--dhcp-boot=tag:ipxe,"+script)
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (Debian's package dnsmasq-base)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("dnsmasq says:\n%s", said.String())
		}
	})
}

// Where another server gives the addresses, a machine asks central what it boots, by the one script of docs/networks.md. Central's answer
// leads to the rack's script, and that to the ramdisk, which inspects the machine. make hardware runs it.
func TestRamdiskByCentralsScript(t *testing.T) {
	needsTime(t)
	const name = "bios-0"
	ctx := limit(t, 12*time.Minute)
	withMore(ctx, t, "--dhcp", "off")
	base, asked := centralInside(t)
	if err := os.WriteFile(filepath.Join(imageFolder, centralsScript), []byte(scriptOfThePage(t, base)), 0o644); err != nil {
		t.Fatal(err)
	}
	anotherServer(ctx, t, theRack.ImageURL(centralsScript))
	o := theRack.Operator
	id := enrolled(ctx, t, name, nil)
	m, err := theRack.Machine(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(ctx, id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	console, began := consoleFromNow(t, name), time.Now()
	if err := o.Ask(ctx, id, "inspect", nil); err != nil {
		t.Fatal(err)
	}
	for _, sign := range []string{"Ironyard: asking the rack for the boot script", "Linux version", agentKnown.String()} {
		line, err := console.Wait(ctx, regexp.MustCompile(sign))
		if err != nil {
			t.Fatalf("no %q on the console: %v\ncentral was asked for:\n%s", sign, err, asked())
		}
		t.Logf("%4.1f s after the request: %.100s", time.Since(began).Seconds(), strings.TrimSpace(line))
	}
	if _, err := o.Wait(ctx, id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	// From an address of the other server's, with the MAC address that iPXE filled in.
	want := regexp.MustCompile(`(?m)^10\.77\.0\.2[23]\d:\d+ /v1/drivers/redfish/vendor_passthru/ipxe_config\?port_address=` + strings.ReplaceAll(m.MAC, ":", "(:|%3a|%3A)") + `$`)
	if got := asked(); !want.MatchString(got) {
		t.Errorf("central was asked for:\n%s", got)
	}
	saysOf(t, historyOf(ctx, t, id), map[string]bool{"script: ramdisk": true, ", by HTTP": true, "dhcp:": false})
}
