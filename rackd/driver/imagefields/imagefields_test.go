package imagefields

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
)

func document(t *testing.T, driverInfo, instanceInfo string) *node.Document {
	t.Helper()
	n := &node.Document{UUID: "u"}
	for text, into := range map[*map[string]any]string{&n.DriverInfo: driverInfo, &n.InstanceInfo: instanceInfo} {
		if err := json.Unmarshal([]byte("{"+into+"}"), text); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Credentials reach the server of the image, and those of driver_info none but the hosts that it names.
func TestCredentials(t *testing.T) {
	sum := `,"image_checksum":"` + strings.Repeat("a", 64) + `"`
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("u:p"))
	const login = `"image_server_auth_strategy":"http_basic","image_server_user":"u","image_server_password":"p","image_server_hosts":"img.example, reg.example:5000"`
	for name, c := range map[string]struct{ driver, instance, want string }{
		"none":                      {"", `"image_source":"https://img.example/i"`, ""},
		"user and password":         {"", `"image_source":"https://img.example/i","image_pull_secret":"u:p"`, basic},
		"as in a config.json":       {"", `"image_source":"oci://img.example/i","image_pull_secret":"` + strings.TrimPrefix(basic, "Basic ") + `"`, basic},
		"a token":                   {"", `"image_source":"oci://img.example/i","image_pull_secret":"t0k"`, "Bearer t0k"},
		"a header":                  {"", `"image_source":"https://img.example/i","image_request_authorization_secret":"Digest x"`, "Digest x"},
		"of the node":               {login, `"image_source":"https://img.example/i"`, basic},
		"with the usual port":       {login, `"image_source":"https://IMG.example:443/i"`, basic},
		"without TLS":               {login, `"image_source":"http://img.example/i"`, ""},
		"without TLS, its TLS port": {login, `"image_source":"http://reg.example:5000/i"`, ""},
		"without TLS, as is said":   {strings.Replace(login, "img.example", "http://img.example", 1), `"image_source":"http://img.example:80/i"`, basic},
		"with TLS, where it is not": {strings.Replace(login, "img.example", "http://img.example", 1), `"image_source":"https://img.example/i"`, ""},
		"another port":              {login, `"image_source":"https://img.example:444/i"`, ""},
		"a registry's port":         {login, `"image_source":"oci://reg.example:5000/i"`, basic},
		"another host":              {login, `"image_source":"https://evil.example/img.example"`, ""},
		"a host that looks alike":   {login, `"image_source":"https://img.example.evil/i"`, ""},
		"the instance's goes first": {login, `"image_source":"https://img.example/i","image_pull_secret":"t0k"`, "Bearer t0k"},
		"a pull secret of the node": {`"image_pull_secret":"t0k","image_server_hosts":"img.example"`, `"image_source":"oci://img.example/i"`, "Bearer t0k"},
	} {
		src, wrong := Source(document(t, c.driver, c.instance+sum))
		if len(wrong) > 0 || src.Authorization != c.want {
			t.Errorf("%s: %q, %v, want %q", name, src.Authorization, wrong, c.want)
		}
	}
	marked := strings.NewReplacer("img.example", "http://img.example", "reg.example", "HTTP://Reg.Example").Replace(login)
	for name, c := range map[string]struct{ driver, instance, header, open string }{
		"a registry, not marked":             {login, `"image_source":"oci://reg.example:5000/i"`, basic, ""},
		"a registry, marked":                 {marked, `"image_source":"oci://reg.example:5000/i"`, basic, "img.example,reg.example:5000"},
		"a registry, marked, its usual port": {marked, `"image_source":"oci://img.example:80/i"`, basic, "img.example,reg.example:5000"},
		"a registry, marked, TLS's port":     {marked, `"image_source":"oci://img.example:443/i"`, "", ""},
		"a registry, marked, another port":   {marked, `"image_source":"oci://reg.example/i"`, "", ""},
		"a registry that is not listed":      {marked, `"image_source":"oci://evil.example/i"`, "", ""},
		"the instance's":                     {login, `"image_source":"oci://evil.example/i","image_pull_secret":"u:p"`, basic, driver.AnyHost},
		"the instance's header":              {marked, `"image_source":"oci://evil.example/i","image_request_authorization_secret":"Bearer x"`, "Bearer x", driver.AnyHost},
		"none":                               {"", `"image_source":"oci://evil.example/i"`, "", ""},
	} {
		src, wrong := Source(document(t, c.driver, c.instance))
		if len(wrong) > 0 || src.Authorization != c.header || src.InTheClear != c.open {
			t.Errorf("%s: %q, in the clear to %q, %v, want %q and %q", name, src.Authorization, src.InTheClear, wrong, c.header, c.open)
		}
	}
	if _, wrong := Source(document(t, `"image_server_hosts":"http://`+driver.AnyHost+`"`, `"image_source":"https://img.example/i"`+sum)); len(wrong) == 0 {
		t.Error("the name for all hosts is taken for one")
	}
	for name, c := range map[string]struct{ driver, instance, words string }{
		"no hosts":            {`"image_pull_secret":"s3cret"`, "", "image_server_hosts"},
		"half a login":        {`"image_server_auth_strategy":"http_basic","image_server_user":"u","image_server_hosts":"h"`, "", "Missing ['image_server_password'] fields from HTTP(S) basic auth config"},
		"no such strategy":    {`"image_server_auth_strategy":"kerberos"`, "", "noauth or http_basic"},
		"two of the node":     {login + `,"image_pull_secret":"s3cret"`, "", "give one"},
		"hosts that are none": {`"image_server_hosts":"https://h/"`, "", "no host or host:port"},
		"two of the instance": {"", `,"image_pull_secret":"s3cret","image_request_authorization_secret":"Bearer s3cret"`, "give one"},
		"a second header":     {"", `,"image_request_authorization_secret":"Bearer s3cret\r\nX: y"`, "no value of an Authorization header"},
	} {
		_, wrong := Source(document(t, c.driver, `"image_source":"https://img.example/i"`+c.instance+sum))
		if all := strings.Join(wrong, "; "); !strings.Contains(all, c.words) || strings.Contains(all, "s3cret") {
			t.Errorf("%s: %q, want %q", name, all, c.words)
		}
	}
	if _, wrong := Source(document(t, "", `"image_source":"file:///i/i","image_pull_secret":"x"`)); len(wrong) == 0 {
		t.Error("a file is given with credentials")
	}
}

func TestProxies(t *testing.T) {
	const image = `"image_source":"https://h/i","image_os_hash_algo":"sha256","image_os_hash_value":"` + "0000000000000000000000000000000000000000000000000000000000000000" + `"`
	src, wrong := Source(document(t, `"image_http_proxy":"proxy.example:3128","image_https_proxy":"https://p","image_no_proxy":".example.org, 10.0.0.1:80"`, image))
	if len(wrong) > 0 || src.Proxies.HTTP != "proxy.example:3128" || src.Proxies.HTTPS != "https://p" || src.Proxies.No == "" {
		t.Errorf("%+v, %v", src.Proxies, wrong)
	}
	for driver, words := range map[string]string{
		`"image_http_proxy":"ftp://p"`: "Proxy URL should either have HTTP(S) scheme or no scheme at all, the following URLs are invalid: image_http_proxy.",
		`"image_no_proxy":"*.a.org"`:   "To denote a domain name, prefix it with a dot",
	} {
		if _, wrong := Source(document(t, driver, image)); !strings.Contains(strings.Join(wrong, ""), words) {
			t.Errorf("%s: %v", driver, wrong)
		}
	}
}

// What holds a credential is sealed by central, which knows secrets by their names; the rest is shown.
func TestSecretsByName(t *testing.T) {
	secrets := []string{fieldPullSecret, fieldHeader, fieldPassword}
	for _, field := range append([]string{fieldHeader}, slices.Collect(func(yield func(string) bool) {
		for f := range Properties() {
			if !yield(f) {
				return
			}
		}
	})...) {
		if seal.IsSecret(field) != slices.Contains(secrets, field) {
			t.Errorf("%s: sealed %v", field, seal.IsSecret(field))
		}
	}
}
