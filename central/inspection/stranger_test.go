package inspection

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// runOn runs actions on the usual subject, whose machine has sent a hostname.
func runOn(t *testing.T, actions, hostname string) (*Subject, error) {
	t.Helper()
	rule, err := Parse(nil, decode[[]any](t, actions))
	if err != nil {
		t.Fatalf("%s: %v", actions, err)
	}
	s := newSubject(t)
	s.Inventory["hostname"] = hostname
	return s, (&Processor{}).Run(s, []Rule{rule})
}

// What a machine says is put into texts as it is: fields in it are not followed, in a loop either.
func TestValuesAreExpandedOnce(t *testing.T) {
	const rule = `[{"op":"set-attribute","args":["extra/{item[at]}","{inventory[hostname]}, {item[is]}"],"loop":[{"at":"a","is":"x {node.name}"},{"at":"b","is":"{inventory[hostname]}"}]}]`
	const sly = "{node.driver_info[redfish_address]}"
	s, err := runOn(t, rule, sly)
	if err != nil {
		t.Fatal(err)
	}
	if s.Node.Extra["a"] != sly+", x node-1" || s.Node.Extra["b"] != sly+", "+sly {
		t.Errorf("extra %v: a machine's words were followed, or a rule's were not", s.Node.Extra)
	}
}

// A machine's words do not choose the server that central calls.
func TestCallsGoToTheRulesServer(t *testing.T) {
	for url, want := range map[string]string{
		"http://cmdb.example/{inventory[hostname]}":     "http://cmdb.example/169.254.169.254/x",
		"http://{node.name}.example/x":                  "http://node-1.example/x",
		"http://cmdb.example?m={inventory[hostname]}":   "http://cmdb.example?m=169.254.169.254/x",
		"http://{inventory[hostname]}":                  "",
		"http://cmdb.example{inventory[hostname]}":      "",
		"{inventory[hostname]}":                         "",
		"http://u:{inventory[hostname]}@cmdb.example/x": "",
	} {
		s, err := runOn(t, `[{"op":"api-call","args":{"url":"`+url+`"}}]`, "169.254.169.254/x")
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "chosen by") || len(s.Calls) > 0):
			t.Errorf("%s: %v, calls %v", url, err, s.Calls)
		case want != "" && (err != nil || s.Calls[0].URL != want):
			t.Errorf("%s: %v, calls %v", url, err, s.Calls)
		}
	}
}

func TestCallsFollowNoRedirect(t *testing.T) {
	reached := make(chan string, 8)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.URL.Path }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
			return
		}
		if r.URL.Path == "/other" {
			reached <- r.URL.Path
		}
		http.Redirect(w, r, elsewhere.URL+"/metadata", http.StatusFound)
	}))
	defer server.Close()
	said, log := io.Pipe()
	c := new(Caller)
	closed := c.Open(t.Context(), slog.New(slog.NewTextHandler(log, nil)))
	lines := bufio.NewScanner(said)
	for _, path := range []string{"/away", "/here"} {
		c.Make([]Call{{URL: server.URL + path, Timeout: maxCallTimeout}})
		select {
		case to := <-reached:
			t.Fatalf("a redirect of %s was followed to %s", path, to)
		case line := <-next(lines):
			if !strings.Contains(line, "not followed") {
				t.Errorf("%s: the log says %q", path, line)
			}
		}
	}
	closed()
	if len(reached) > 0 {
		t.Errorf("a redirect was followed to %s", <-reached)
	}
}

// next is the next line.
func next(lines *bufio.Scanner) <-chan string {
	line := make(chan string, 1)
	go func() {
		lines.Scan()
		line <- lines.Text()
	}()
	return line
}
