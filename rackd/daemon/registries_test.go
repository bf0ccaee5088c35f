package daemon

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver/imagefields"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// The credentials of a node go to a registry of --plain-registries where image_server_hosts has http:// before its host. Where it has the
// host without that, the image is refused with the reason. Who named the image has chosen the registry for credentials of the instance.
func TestCredentialsForARegistryWithoutTLS(t *testing.T) {
	const header = "Basic dTpw" // u:p
	image := append([]byte("\xeb\x63\x90"), make([]byte, 1<<20)...)
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(image))
	var mu sync.Mutex
	var shown []string
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown = append(shown, r.Header.Get("Authorization"))
		mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != header:
			w.Header().Set("WWW-Authenticate", "Basic realm=r")
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			fmt.Fprintf(w, `{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"a/disk","layers":[{"mediaType":"a/disk","digest":%q,"size":%d}]}`, sum, len(image))
		default:
			w.Header().Set("Content-Length", fmt.Sprint(len(image)))
			w.Write(image)
		}
	}))
	t.Cleanup(registry.Close)
	host := strings.TrimPrefix(registry.URL, "http://")
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		hosts    string
		instance map[string]any
		refused  string // what the error says; empty: the image comes
		sent     bool
	}{
		"the host is marked":             {"http://" + host, nil, "", true},
		"the host is marked and not":     {host + ", http://" + strings.ToUpper(host), nil, "", true},
		"the host is not marked":         {host, nil, "write http://" + host + " there", false},
		"another host is marked":         {host + ",http://reg.example", nil, "write http://" + host + " there", false},
		"the host is not listed":         {"http://reg.example", nil, "set image_pull_secret", false},
		"credentials of the instance":    {host, map[string]any{"image_pull_secret": "u:p"}, "", true},
		"a header that instance brought": {host, map[string]any{"image_request_authorization_secret": header}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			mu.Lock()
			shown = nil
			mu.Unlock()
			n := &node.Document{UUID: "u", DriverInfo: map[string]any{"image_server_hosts": c.hosts, "image_pull_secret": base64.StdEncoding.EncodeToString([]byte("u:p"))},
				InstanceInfo: map[string]any{"image_source": "oci://" + host + "/os:1"}}
			for field, value := range c.instance {
				n.InstanceInfo[field] = value
			}
			src, wrong := imagefields.Source(n)
			if len(wrong) > 0 {
				t.Fatal(wrong)
			}
			web := &http.Client{Transport: &http.Transport{}}
			t.Cleanup(web.CloseIdleConnections)
			cache, err := imagecache.Open(imagecache.Config{Dir: t.TempDir(), PlainRegistries: []string{host}, Client: web})
			if err != nil {
				t.Fatal(err)
			}
			i := images{cache: cache, bases: []string{"http://rack"}, codes: imageCodes{seal.NewKeyring("rack-a", key), "rack-a"}, neighbours: func() []bus.Member { return nil }}
			got, err := i.PrepareDisk(t.Context(), src)
			if c.refused == "" && (err != nil || "sha256:"+got.HashValue != sum) {
				t.Errorf("%+v, %v", got, err)
			}
			if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || !imagecache.Permanent(err)) {
				t.Errorf("%v, want a refusal that says %q", err, c.refused)
			}
			mu.Lock()
			defer mu.Unlock()
			if sent := slices.Contains(shown, header); sent != c.sent {
				t.Errorf("the registry was sent %q", shown)
			}
		})
	}
}
