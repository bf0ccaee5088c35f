package vbmc

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// no is a refusal of a Computer.
type no string

func (n no) Error() string      { return string(n) }
func (no) Is(target error) bool { return target == errors.ErrUnsupported }

// equipped is a computer with every ability. What is set for the next start it has at once
// in next.
type equipped struct {
	fake
	uri          string
	secure       SecureBoot
	resets       []KeyReset
	certificates map[string][][]byte
	iscsi        ISCSIBoot
	next         *ISCSIBoot
	problem      string
	image        string
	unreadable   error // what InsertMedium finds
	found        error // what the last start found
	lacks        error // why it has no ability at all
	options      []BootOption
	ordered      int
	progress     Progress
}

func (e *equipped) Progress() (Progress, error) { return e.progress, e.lacks }

func (e *equipped) BootOptions() ([]BootOption, int, error) { return e.options, e.ordered, e.lacks }
func (e *equipped) OrderBoot(names []string) error {
	var order []BootOption
	for _, name := range names {
		i := slices.IndexFunc(e.options, func(o BootOption) bool { return o.Name == name })
		if i < 0 {
			return no("there is no " + name)
		}
		order = append(order, e.options[i])
	}
	if len(order) < e.ordered {
		return no("an option is missing")
	}
	e.options, e.ordered = order, len(order)
	return nil
}

func (e *equipped) HTTPBootURI() (string, error) { return e.uri, e.lacks }
func (e *equipped) SetHTTPBootURI(uri string) error {
	if strings.HasPrefix(uri, "https:") {
		return no("it trusts nobody")
	}
	e.uri = uri
	return nil
}

func (e *equipped) SecureBoot() (SecureBoot, error) { return e.secure, e.lacks }
func (e *equipped) SetSecureBoot(on bool) error {
	if on && !e.secure.PlatformKey {
		return no("there is no platform key")
	}
	e.secure.Next = on
	return nil
}
func (e *equipped) ResetKeys(r KeyReset) error {
	e.resets = append(e.resets, r)
	e.secure.PlatformKey = r == DefaultKeys
	return nil
}
func (e *equipped) Certificates(database string) ([][]byte, error) {
	return e.certificates[database], nil
}
func (e *equipped) AddCertificate(database string, der []byte) error {
	if e.certificates == nil {
		e.certificates = map[string][][]byte{}
	}
	e.certificates[database] = append(e.certificates[database], der)
	return nil
}

func (e *equipped) ISCSIBoot() (ISCSIBoot, *ISCSIBoot, string, error) {
	return e.iscsi, e.next, e.problem, e.lacks
}
func (e *equipped) SetISCSIBoot(b ISCSIBoot) error {
	if b.CHAP != nil && len(b.CHAP.Secret) < 12 {
		return no("the secret is too short")
	}
	e.next = &b
	return nil
}

func (e *equipped) Medium() (string, error) { return e.image, e.found }
func (e *equipped) InsertMedium(_ context.Context, image string) error {
	if strings.HasPrefix(image, "ftp:") {
		return no("it reads HTTP")
	}
	if e.unreadable == nil {
		e.image = image
	}
	return e.unreadable
}
func (e *equipped) EjectMedium(context.Context) error { e.image = ""; return nil }

// withAStick is a computer whose BMC has a second drive.
type withAStick struct {
	equipped
	stick string
	none  error
}

func (s *withAStick) Stick() (string, error, error) { return s.stick, nil, s.none }
func (s *withAStick) InsertStick(_ context.Context, image string) error {
	if strings.HasPrefix(image, "ftp:") {
		return no("it reads HTTP")
	}
	s.stick = image
	return nil
}
func (s *withAStick) EjectStick(context.Context) error { s.stick = ""; return nil }

// withAFloppy is one with a drive of a floppy beside that of a stick.
type withAFloppy struct {
	withAStick
	floppy string
}

func (f *withAFloppy) Floppy() (string, error, error) { return f.floppy, nil, nil }
func (f *withAFloppy) InsertFloppy(_ context.Context, image string) error {
	f.floppy = image
	return nil
}
func (f *withAFloppy) EjectFloppy(context.Context) error { f.floppy = ""; return nil }

func serveEquipped(t *testing.T) (*BMC, *equipped, string) {
	t.Helper()
	computer := &equipped{}
	b, err := New(Config{Username: "admin", Password: "secret-word", UEFI: true, Name: "uefi-0", MAC: "52:54:00:00:00:01"}, computer)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b, computer, l.Addr().String()
}

// connectEquipped is serveEquipped with a foreign client.
func connectEquipped(t *testing.T) (*BMC, *equipped, *gofish.APIClient, *schemas.ComputerSystem) {
	t.Helper()
	b, computer, address := serveEquipped(t)
	c, err := gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + address, Username: "admin", Password: "secret-word", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Logout)
	systems, err := c.Service.Systems()
	if err != nil || len(systems) != 1 {
		t.Fatalf("%d systems, %v", len(systems), err)
	}
	return b, computer, c, systems[0]
}

// body is a resource as it is on the wire.
func body(t *testing.T, b *BMC, path string) map[string]any {
	t.Helper()
	w := ask(b, "GET", path, "")
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	var o map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// refuses sends what has to be refused, and looks for each text of says in the answer.
func refuses(t *testing.T, b *BMC, method, path, sent string, status int, says ...string) {
	t.Helper()
	w := ask(b, method, path, sent)
	if w.Code != status {
		t.Errorf("%s %s %s: %d, want %d: %s", method, path, sent, w.Code, status, w.Body)
	}
	for _, text := range says {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s %s %s: no %q in %s", method, path, sent, text, w.Body)
		}
	}
}
