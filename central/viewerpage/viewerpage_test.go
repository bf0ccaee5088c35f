package viewerpage

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func novncAt(t *testing.T, files ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range files {
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("// "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// The page and noVNC's scripts are served, and nothing else of the folder; the API has all other paths.
func TestPage(t *testing.T) {
	folder := novncAt(t, "core/rfb.js", "core/util/browser.js", "vendor/pako/lib/zlib/inflate.js", "app/ui.js", "core/readme.txt", "secret.js")
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "core", "passwd.js")); err != nil {
		t.Fatal(err)
	}
	h, err := New(folder, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		status     int
		kind, says string
	}{
		"/console/web1":                          {200, "text/html; charset=utf-8", `src="page.js"`},
		"/console/page.js":                       {200, "text/javascript; charset=utf-8", "ironyard.token."},
		"/novnc/core/rfb.js":                     {200, "text/javascript; charset=utf-8", "// core/rfb.js"},
		"/novnc/core/util/browser.js":            {200, "text/javascript; charset=utf-8", "browser.js"},
		"/novnc/vendor/pako/lib/zlib/inflate.js": {200, "text/javascript; charset=utf-8", "inflate.js"},
		"/novnc/app/ui.js":                       {404, "", ""},
		"/novnc/core/readme.txt":                 {404, "", ""},
		"/novnc/core/passwd.js":                  {404, "", ""},
		"/novnc/secret.js":                       {404, "", ""},
		"/novnc/../etc/passwd":                   {404, "", ""},
		"/novnc/":                                {404, "", ""},
		"/console/":                              {404, "", ""},
		"/console/web1/x":                        {404, "", ""},
		"/v1/nodes":                              {http.StatusTeapot, "", ""},
		"/":                                      {http.StatusTeapot, "", ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://central.example:6385"+path, nil))
		if w.Code != want.status || want.says != "" && (w.Header().Get("Content-Type") != want.kind || !strings.Contains(w.Body.String(), want.says)) {
			t.Errorf("%s: %d, %q, %.60q", path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); w.Code == 200 && (!strings.Contains(policy, "script-src 'self';") || !strings.Contains(policy, "ws://central.example:6385 ") || !strings.Contains(policy, "frame-ancestors 'none'")) {
			t.Errorf("%s: %q", path, policy)
		}
	}
	odd := httptest.NewRequest(http.MethodGet, "/console/web1", nil)
	odd.Host = "x; script-src *"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, odd)
	if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "*") {
		t.Errorf("a host that is no name: %q", policy)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/console/web1", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// What the script looks for is on the page, and each event is handled by which noVNC waits for a person.
func TestTheScriptFitsThePage(t *testing.T) {
	script, err := own.ReadFile("page.js")
	page, err2 := own.ReadFile("page.html")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	looked := regexp.MustCompile(`getElementById\('(\w+)'\)|elements\.(\w+)`).FindAllSubmatch(script, -1)
	for _, m := range looked {
		if id, name := string(m[1]), string(m[2]); !bytes.Contains(page, []byte(`id="`+id+`"`)) && !bytes.Contains(page, []byte(`name="`+name+`"`)) {
			t.Errorf("the page has no %s%s", id, name)
		}
	}
	if len(looked) < 8 {
		t.Errorf("the script looks for %q", looked)
	}
	for _, event := range []string{"connect", "disconnect", "credentialsrequired", "securityfailure"} {
		if !bytes.Contains(script, []byte("addEventListener('"+event+"'")) {
			t.Errorf("nothing is done at %s", event)
		}
	}
}

func TestFoldersThatAreNoNoVNC(t *testing.T) {
	for what, folder := range map[string]string{"empty": t.TempDir(), "not there": "/nonesuch", "another": novncAt(t, "core/other.js")} {
		if _, err := New(folder, nil); err == nil || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
