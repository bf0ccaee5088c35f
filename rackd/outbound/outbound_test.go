package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func networks(list ...string) (all []netip.Prefix) {
	for _, n := range list {
		all = append(all, netip.MustParsePrefix(n))
	}
	return all
}

func refused(err error) bool {
	_, is := errors.AsType[*RefusedError](err)
	return is
}

func TestCheck(t *testing.T) {
	given := Fetching{Refused: networks("10.1.0.0/16", "fd00:1::/32")}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "fd00:1::7": true, "10.2.0.1": false, "2001:db8::1": false, "fd00:2::7": false,
	} {
		err := given.Check(netip.MustParseAddr(address))
		if refused(err) != want || want && !strings.Contains(err.Error(), "--no-fetch-from") {
			t.Errorf("%s: %v, want refused %v", address, err, want)
		}
	}
}

// Without a word of the operator neither this machine nor its link are reached, by whatever
// way their addresses are written.
func TestUsuallyRefused(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"169.254.169.254": true, "fe80::1%eth0": true, "224.0.0.1": true, "ff02::1": true, "ff05::2": true, "255.255.255.255": true,
		"64:ff9b::127.0.0.1": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b::": true,
		"64:ff9b:1::7f00:1": true, "64:ff9b:1:7f00:0:100::": true, "64:ff9b:1:a9:fe:a9fe::": true, "64:ff9b:1:0:a9:fea9:fe00:0": true,
		"2002:7f00:1::": true, "2002:a9fe:a9fe::1": true, "2001::80ff:fffe": true, "2001:0:7f00:1::1": true,
		"::ffff:0:127.0.0.1": true, "::127.0.0.1": true, "fd00::5efe:127.0.0.1": true, "fd00::200:5efe:169.254.169.254": true,

		"10.2.0.1": false, "192.168.1.1": false, "2001:db8::1": false, "fd00::1": false, "64:ff9b::192.0.2.1": false, "64:ff9b:1::192.0.2.1": false,
		"64:ff9b:1:1::192.0.2.1": false, "2002:c000:201::1": false, "2001:0:c000:201::3fff:fdfe": false,
	} {
		ip := netip.MustParseAddr(address)
		if err := (Fetching{}).Check(ip); refused(err) != want || want && !strings.Contains(err.Error(), "--fetch-from") {
			t.Errorf("fetching from %s: %v, want refused %v", address, err, want)
		}
		if err := (BMCs{}).Check(ip); refused(err) != want || want && !strings.Contains(err.Error(), "--bmc-networks") {
			t.Errorf("a BMC at %s: %v, want refused %v", address, err, want)
		}
	}
}

func TestNamedNetworks(t *testing.T) {
	f := Fetching{Refused: networks("127.1.0.0/16"), Allowed: networks("127.0.0.0/8", "64:ff9b:1::/48")}
	for address, want := range map[string]bool{"127.0.0.1": false, "::ffff:127.0.0.1": false, "64:ff9b::127.0.0.1": false, "64:ff9b:1::a9fe:a9fe": false, "10.0.0.1": false,
		"127.1.0.1": true, "64:ff9b::127.1.0.1": true, "::1": true, "169.254.169.254": true} {
		if err := f.Check(netip.MustParseAddr(address)); refused(err) != want {
			t.Errorf("%s: %v, want refused %v", address, err, want)
		}
	}
	b := BMCs(networks("10.7.0.0/16", "fe80::/10"))
	for address, want := range map[string]bool{"10.7.0.1": false, "::ffff:10.7.0.1": false, "fe80::7%eth1": false, "10.8.0.1": true, "127.0.0.1": true, "192.0.2.1": true} {
		if err := b.Check(netip.MustParseAddr(address)); refused(err) != want {
			t.Errorf("a BMC at %s: %v, want refused %v", address, err, want)
		}
	}
}

// No name, no way of writing an address and no redirect leads to this machine, and nothing
// there is asked.
func TestClient(t *testing.T) {
	asked := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer srv.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	for name, c := range map[string]*http.Client{
		"by default": Client(Fetching{}),
		"told so":    Client(Fetching{Refused: networks("127.0.0.0/8", "::1/128")}),
	} {
		for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]"} {
			if err := get(c, "http://"+host+":"+port); !refused(err) || !strings.Contains(err.Error(), "-fetch-from") {
				t.Errorf("%s, %q: %v", name, host, err)
			}
		}
	}
	if asked {
		t.Error("a server was asked that nothing is fetched from")
	}
	allowed := Client(Fetching{Allowed: networks("127.0.0.1/32")})
	if err := get(allowed, srv.URL); err != nil || !asked {
		t.Errorf("named by the operator: %v", err)
	}
	asked = false
	other := httptest.NewUnstartedServer(http.RedirectHandler("http://127.0.0.1:"+port+"/", http.StatusFound))
	var err error
	if other.Listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.2:0"); err != nil {
		t.Fatal(err)
	}
	other.Start()
	defer other.Close()
	if err := get(Client(Fetching{Allowed: networks("127.0.0.2/32")}), other.URL); !refused(err) || asked {
		t.Errorf("a redirect was followed: %v", err)
	}
}

// get returns why a URL was not fetched.
func get(c *http.Client, url string) error {
	res, err := c.Get(url)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

func TestDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Dialer(time.Second, BMCs{}.Check).DialContext(t.Context(), "tcp", l.Addr().String()); !refused(err) {
		t.Errorf("loopback was dialled for a BMC: %v", err)
	}
	c, err := Dialer(time.Second, BMCs(networks("127.0.0.0/8")).Check).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// What may be sent to a server is not sent to another one, nor without the TLS that protected it.
func TestSameServer(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"https://h/a", "https://H:443/b", true}, {"http://h/", "https://h/", true}, {"https://h:1/", "https://h:1/x", true},
		{"https://h/", "http://h/", false}, {"https://h/", "https://h:444/", false}, {"https://h/", "https://x.h/", false},
		{"http://h:5000/", "https://h:5000/", false}, {"http://h/", "http://h:8080/", false},
	} {
		from, err := url.Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := sameServer(from, to); got != c.want {
			t.Errorf("%s to %s: %t", c.from, c.to, got)
		}
	}
}

// A BMC reads a host by its own rules, often those of the C library. What may be an address for it, and is a mere name for rackd, is
// refused.
func TestHostsThatABMCReadsAsAnAddress(t *testing.T) {
	for host, want := range map[string]string{
		"2130706433": "ends in a number", "0x7f000001": "ends in a number", "0x7f.1": "ends in a number", "127.1": "ends in a number",
		"0177.0.0.1": "ends in a number", "017700000001": "ends in a number", "127.000.000.001": "ends in a number", "169.254.43518": "ends in a number",
		"0XA9FEA9FE": "ends in a number", "h.example.0x1.": "ends in a number", "10.1.515": "ends in a number",
		"127.0.0.1.": "loopback", "localhost": "loopback", "LOCALHOST.": "loopback", "bmc.localhost": "loopback",
		"１２７.0.0.1": "beyond ASCII", "①②⑦.0.0.1": "beyond ASCII", "127。0。0。1": "beyond ASCII", "": "is none", ".": "is none",
		"10.1.2.3": "--no-fetch-from", "10.1.2.3.": "--no-fetch-from", "user@10.1.2.3": "--no-fetch-from",
		"192.0.2.1": "", "192.0.2.1.": "", "[2001:db8::1]": "", "images.invalid": "", "4images.invalid": "", "h.example.0xfg": "", "h.x0": "",
	} {
		given := Fetching{Refused: networks("10.1.0.0/16")}
		err := given.CheckURL(t.Context(), "http://"+host+"/disk.iso")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", host, err, want)
		}
	}
	for _, text := range []string{"http:127.0.0.1/disk.iso", "http:///disk.iso"} {
		if err := (Fetching{}).CheckURL(t.Context(), text); err == nil {
			t.Errorf("%s passes", text)
		}
	}
}
