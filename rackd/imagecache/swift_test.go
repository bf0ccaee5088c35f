package imagecache

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// swift is OpenStack's object store, from Debian: what temporary URLs and presigned ones of S3 are good for is its judgement.
type swift struct{ admin, public string }

const tempKey = "a key of the account"

func startSwift(t *testing.T) swift {
	t.Helper()
	if os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("NOT RUN: starts five servers of Swift, which takes minutes: run `make hardware`, or set IRONYARD_HARDWARE=1")
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, text)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "devices", "d1"), 0o700); err != nil {
		t.Fatal(err)
	}
	file("swift.conf", "[swift-hash]\nswift_hash_path_suffix = x\nswift_hash_path_prefix = y\n[storage-policy:0]\nname = p\ndefault = yes\n")
	common := func(port int) string {
		return fmt.Sprintf("[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = %d\nworkers = 0\nuser = root\nswift_dir = %s\ndevices = %s/devices\nmount_check = false\nlog_address = /nowhere\n", port, dir, dir)
	}
	var commands [][]string
	var servers []string
	for kind, ring := range map[string]string{"account": "account", "container": "container", "object": "object"} {
		port := freePort(t)
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", port))
		run("swift-ring-builder", ring+".builder", "create", "1", "1", "1")
		run("swift-ring-builder", ring+".builder", "add", "--region", "1", "--zone", "1", "--ip", "127.0.0.1", "--port", fmt.Sprint(port), "--device", "d1", "--weight", "1")
		run("swift-ring-builder", ring+".builder", "rebalance")
		conf := file(kind+".conf", common(port)+fmt.Sprintf("[pipeline:main]\npipeline = %s-server\n[app:%s-server]\nuse = egg:swift#%s\n", kind, kind, kind))
		commands = append(commands, []string{"swift-" + kind + "-server", conf})
	}
	s := swift{}
	for _, p := range []struct {
		at             *string
		name, pipeline string
	}{{&s.admin, "admin", "catch_errors proxy-server"}, {&s.public, "public", "catch_errors cache tempurl s3api tempauth slo proxy-server"}} {
		port := freePort(t)
		*p.at = fmt.Sprintf("http://127.0.0.1:%d", port)
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", port))
		conf := file(p.name+".conf", common(port)+"[pipeline:main]\npipeline = "+p.pipeline+"\n[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n"+
			"[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:1\n[filter:slo]\nuse = egg:swift#slo\n"+
			"[filter:catch_errors]\nuse = egg:swift#catch_errors\n[filter:tempurl]\nuse = egg:swift#tempurl\n[filter:s3api]\nuse = egg:swift#s3api\n"+
			"[filter:tempauth]\nuse = egg:swift#tempauth\nuser_site_deploy = s3key .admin\n")
		commands = append(commands, []string{"swift-proxy-server", conf})
	}
	for _, c := range commands {
		cmd := exec.Command(c[0], c[1], "-v")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("%s said: %s", c[0], said.String())
			}
		})
	}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := s.put("/v1/AUTH_site", "", map[string]string{"X-Account-Meta-Temp-URL-Key": tempKey})
		for _, at := range servers { // the proxy has an account before the server of objects listens
			if err == nil {
				err = listens(at)
			}
		}
		if err == nil {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("swift does not start: %v", err)
		}
	}
}

func listens(at string) error {
	c, err := net.Dial("tcp", at)
	if err == nil {
		c.Close()
	}
	return err
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// put writes as the administrator; an account's keys are posted.
func (s swift) put(path, body string, headers map[string]string) error {
	method := http.MethodPut
	if strings.Count(path, "/") == 2 {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, s.admin+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return nil
}

// signing is by the clients' own libraries: swiftclient and botocore, by which clients of S3 sign.
const signing = `
import sys, botocore.session
from botocore.config import Config
from swiftclient.utils import generate_temp_url
at, key, secret = sys.argv[1:]
image, sums = "/v1/AUTH_site/images/os.raw", "/v1/AUTH_site/images/SHA256SUMS"
for path, seconds, absolute in (image, 600, False), (sums, 600, False), (image, 700, False), (image, 1000000000, True):
    print(at + generate_temp_url(path, seconds, key, "GET", absolute=absolute, digest="sha256"))
c = botocore.session.get_session().create_client("s3", region_name="us-east-1", endpoint_url=at, aws_access_key_id="site:deploy", aws_secret_access_key=secret,
    config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))
print(c.generate_presigned_url("get_object", Params={"Bucket": "images", "Key": "os.raw"}, ExpiresIn=600))
`

// Temporary URLs of Swift and presigned ones of S3 are signed by their own clients and judged by their own server.
func TestTemporaryURLs(t *testing.T) {
	s := startSwift(t)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	body := strings.Repeat("an image\n", 200<<10)
	sums := fmt.Sprintf("%s  other.raw\n%s *os.raw\n", strings.Repeat("0", 64), sumOf(body))
	if err := s.put("/v1/AUTH_site/images", "", nil); err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string]string{"/v1/AUTH_site/images/os.raw": body, "/v1/AUTH_site/images/SHA256SUMS": sums} {
		if err := s.put(path, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	text, err := exec.Command("/usr/bin/python3", "-c", signing, s.public, tempKey, "s3key").Output()
	if err != nil {
		t.Fatalf("sign URLs (Debian packages python3-swiftclient, python3-botocore): %v", err)
	}
	urls := strings.Fields(string(text))
	image, sum, again, expired, s3 := urls[0], urls[1], urls[2], urls[3], urls[4]
	c := openCache(t, Config{})
	e := mustEnsure(t, c, Source{URL: image, HashValue: sumOf(body)})
	if !intact(t, e) || e.Size != int64(len(body)) {
		t.Errorf("%+v", e)
	}
	for name, src := range map[string]Source{
		"a checksum file at a temporary URL": {URL: image, HashValue: sum},
		"a new signature":                    {URL: again, HashValue: sumOf(body)},
		"S3":                                 {URL: s3, HashValue: sumOf(body)},
	} {
		if got, err := c.Ensure(t.Context(), src); err != nil || got.ID != e.ID {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	fresh := openCache(t, Config{})
	if got, err := fresh.Ensure(t.Context(), Source{URL: s3, HashValue: sumOf(body)}); err != nil || !intact(t, got) {
		t.Errorf("S3 alone: %v", err)
	}
	forged := strings.Replace(image, "temp_url_sig=", "temp_url_sig=0", 1)
	forgedS3 := strings.Replace(s3, "X-Amz-Signature=", "X-Amz-Signature=0", 1)
	for name, url := range map[string]string{"expired": expired, "forged": forged, "forged S3": forgedS3, "unsigned": s.public + "/v1/AUTH_site/images/os.raw"} {
		for where, cache := range map[string]*Cache{"here": c, "elsewhere": openCache(t, Config{})} {
			_, err := cache.Ensure(t.Context(), Source{URL: url, HashValue: sumOf(body)})
			if !errors.Is(err, ErrNotFound) || strings.Contains(err.Error(), "ignature") || strings.Contains(err.Error(), "temp_url") {
				t.Errorf("%s, the image is %s: %v", name, where, err)
			}
		}
	}
}
