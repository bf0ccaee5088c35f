package consoles

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/auth/issuertest"
	central "github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// browser is a real one that shows no window, driven by WebDriver (https://www.w3.org/TR/webdriver2/).
type browser struct {
	t  *testing.T
	at string // of its session
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	var said syncBuffer
	cmd := exec.Command("chromedriver", "--port="+address[strings.LastIndex(address, ":")+1:])
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	answers(t, address, &said)
	b := &browser{t: t, at: "http://" + address + "/session"}
	var session struct {
		ID string `json:"sessionId"`
	}
	b.ask(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{"goog:chromeOptions": map[string]any{
		"args": []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir()}}}}}, &session)
	b.at += "/" + session.ID
	t.Cleanup(func() { b.ask(http.MethodDelete, "", nil, nil) })
	return b
}

// ask has the browser do something, and reads what it says into value unless that is nil.
func (b *browser) ask(method, what string, with, value any) {
	b.t.Helper()
	var body []byte
	if with != nil {
		var err error
		if body, err = json.Marshal(with); err != nil {
			b.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // its session is ended when the test's context has
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, b.at+what, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("the browser, %s %s: %s %s %v", method, what, resp.Status, raw, err)
	}
	answer := struct {
		Value any `json:"value"`
	}{value}
	if err := json.Unmarshal(raw, &answer); err != nil {
		b.t.Fatalf("%v: %s", err, raw)
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.ask(http.MethodPost, "/url", map[string]string{"url": url}, nil)
}

// says waits until the page's line of state does.
func (b *browser) says(want string) {
	b.t.Helper()
	var said string
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		b.run(`return document.getElementById('state').textContent`, &said)
		if strings.HasPrefix(said, want) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("the page says %q, want %q", said, want)
		}
	}
}

func (b *browser) run(script string, value any) {
	b.t.Helper()
	b.ask(http.MethodPost, "/execute/sync", map[string]any{"script": script, "args": []any{}}, value)
}

// types presses a key and lets it go, where the page has put the focus.
func (b *browser) types(key string) {
	b.t.Helper()
	b.ask(http.MethodPost, "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard",
		"actions": []any{map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key}}}}}, nil)
}

// picture is what noVNC has drawn.
func (b *browser) picture() image.Image {
	b.t.Helper()
	var drawn string
	b.run(`return document.querySelector('#screen canvas').toDataURL('image/png').split(',')[1]`, &drawn)
	raw, err := base64.StdEncoding.DecodeString(drawn)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// shows waits until the page's picture is good, which its first parts may not be.
func (b *browser) shows(what string, good func(image.Image) bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !good(b.picture()); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s: the page's picture %v is another", what, b.picture().Bounds())
		}
	}
}

// A browser opens central's page: noVNC shows the picture that QEMU gives of its display, and that of a made-up machine, which a key
// changes. A console that is not there is said not to be.
func TestPageInABrowser(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("needs a browser (Debian's chromium-driver) and noVNC (novnc); make hardware runs it")
	}
	s := newScreen(t)
	b := kvmBMC(t, s)
	rack := rackWith(t, dev.Options{Drivers: []string{"redfish"}, NoVNC: "/usr/share/novnc"})
	id := enabled(t, rack, operator.Machine{Name: "web1", Driver: "redfish", DriverInfo: consoleNode(b, nil).DriverInfo, Interfaces: map[string]string{"console": "redfish-graphical"}})
	page := newBrowser(t)
	page.open(rack.Endpoint + "/console/" + id)
	page.says("Console of " + id)
	want := s.dump(t)
	page.shows("QEMU's display", func(got image.Image) bool {
		if got.Bounds() != want.Bounds() {
			return false
		}
		other, light := differing(got, want)
		t.Logf("%v: %d pixels differ, %d are not black", got.Bounds(), other, light)
		return light > 0 && other <= want.Bounds().Dx()*want.Bounds().Dy()/200
	})

	made := enabled(t, rack, operator.Machine{Name: "made-up", Driver: fake.TypeName, Interfaces: map[string]string{"console": "fake-graphical"}})
	c := fake.ScreenColour(made)
	page.open(rack.Endpoint + "/console/made-up")
	page.says("Console of made-up")
	before := color.RGBA{c[0], c[1], c[2], 255}
	page.shows("the made-up machine", func(got image.Image) bool { return near(got.At(32, 24), before) })
	page.types("a")
	page.shows("the made-up machine after a key", func(got image.Image) bool { return !near(got.At(32, 24), before) })

	page.open(rack.Endpoint + "/console/nobody")
	page.says("The console was not opened.")
}

// Where the API asks who one is, the page asks the person. A good token opens the console; none, a made-up one and a reader's do not,
// and the token is in no address, no storage and no cookie of the browser.
func TestTokenInABrowser(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("needs a browser (Debian's chromium-driver) and noVNC (novnc); make hardware runs it")
	}
	issuer := issuertest.New(t)
	claims := auth.Claims{Roles: "roles"}
	for _, text := range []string{"admins=system:admin", "readers=system:reader"} {
		g, err := auth.ParseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		claims.Grants = append(claims.Grants, g)
	}
	rack := rackWith(t, dev.Options{NoVNC: "/usr/share/novnc", Access: central.Access{Strategies: []string{"oidc"},
		OIDC: auth.OIDCConfig{Issuer: issuer.URL, Audience: issuertest.Audience, Claims: claims}}})
	admin, reader := issuer.Token(map[string]any{"roles": []string{"admins"}}), issuer.Token(map[string]any{"roles": []string{"readers"}})
	var made struct {
		UUID string `json:"uuid"`
	}
	if err := json.Unmarshal(asked(t, rack, admin, http.MethodPost, "/v1/nodes", `{"name":"guarded","driver":"fake-hardware","console_interface":"fake-graphical"}`), &made); err != nil {
		t.Fatal(err)
	}
	enable(t, rack, admin, made.UUID)

	page := newBrowser(t)
	page.open(rack.Endpoint + "/console/guarded")
	for _, token := range []string{"", "made-up", reader} {
		page.says("The console was not opened.")
		page.gives(token)
	}
	page.says("The console was not opened.")
	page.gives(admin)
	page.says("Console of guarded")
	c := fake.ScreenColour(made.UUID)
	page.shows("the machine", func(got image.Image) bool { return near(got.At(32, 24), color.RGBA{c[0], c[1], c[2], 255}) })
	var kept string
	page.run(`return JSON.stringify([location.href, document.cookie, Object.entries(localStorage), Object.entries(sessionStorage), performance.getEntries().map((e) => e.name)])`, &kept)
	if strings.Contains(kept, admin) || strings.Contains(kept, admin[:20]) {
		t.Errorf("the browser keeps the token: %s", kept)
	}
}

// gives types a token into the page's field, and presses its button.
func (b *browser) gives(token string) {
	b.t.Helper()
	b.run(`document.getElementById('state').textContent = ''; document.getElementById('token').value = ''`, nil)
	if token != "" {
		b.ask(http.MethodPost, "/element/"+b.element("#token")+"/value", map[string]string{"text": token}, nil)
	}
	b.ask(http.MethodPost, "/element/"+b.element("#who button")+"/click", map[string]any{}, nil)
}

// element is the browser's id for what a CSS selector finds.
func (b *browser) element(selector string) (id string) {
	b.t.Helper()
	var found map[string]string
	b.ask(http.MethodPost, "/element", map[string]string{"using": "css selector", "value": selector}, &found)
	for _, id = range found {
	}
	return id
}
