package machine

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/uefivars"
)

var oneAttempt = []uefivars.Attempt{{Target: netip.MustParseAddrPort("10.0.0.1:3260"), TargetName: "iqn.2026-11.org.example:t"}}

// started writes what is staged, as a start does.
func started(t *testing.T, m *Machine) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writeStaged(t.Context())
	if err := m.saveState(); err != nil {
		t.Fatal(err)
	}
}

// What cannot be written at a start is told in the log and waits, also for another
// process; the file that holds it is its owner's alone.
func TestStagedSettingsWait(t *testing.T) {
	var log bytes.Buffer
	cfg := Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, Tap: "tap0", MAC: testMAC, DiskMiB: 16, BootByVariables: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
	m := open(t, cfg)
	attempts := slices.Clone(oneAttempt)
	attempts[0].CHAP = &uefivars.CHAP{Name: "me", Secret: "my-own-secret"}
	if err := m.SetISCSI("iqn.2026-11.org.example:a", attempts); err != nil {
		t.Fatal(err)
	}
	started(t, m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "iSCSI attempts") || strings.Contains(log.String(), "my-own-secret") {
		t.Errorf("the log: %s", log.String())
	}
	if st, err := os.Stat(filepath.Join(cfg.Dir, stateFile)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the state's file: %v, %v", st.Mode(), err)
	}
	again := open(t, cfg)
	now, next, problem, err := again.ISCSI()
	if err != nil || len(now.Attempts) != 0 || next == nil || !strings.Contains(problem, "start it once") {
		t.Fatalf("now %+v, next %+v, problem %q, %v", now, next, problem, err)
	}
	if a := next.Attempts[0]; a.MAC.String() != testMAC || a.CHAP.Secret != "my-own-secret" || a.Target != attempts[0].Target || a.Local.IsValid() {
		t.Errorf("what waits is %+v", a)
	}
}

func TestHTTPBootURI(t *testing.T) {
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, Tap: "tap0", MAC: testMAC, DiskMiB: 16, BootByVariables: true})
	for _, uri := range []string{"https://10.0.0.1/a", "ftp://10.0.0.1/a", "10.0.0.1", "http://", "http://10.0.0.1/a b", "http://10.0.0.1/ä", "http://10.0.0.1/" + strings.Repeat("a", maxURI)} {
		if err := m.SetHTTPBootURI(uri); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("URI %.40q: %v", uri, err)
		}
	}
	for _, uri := range []string{"http://10.0.0.1/a", "http://10.0.0.1/b?c=d", ""} {
		if err := errors.Join(m.SetHTTPBootURI(uri), m.SetBootOverride(HTTP, true), m.override(t.Context())); err != nil {
			t.Fatal(err)
		}
		if _, next := wanted(t, m); next != httpDescription+" "+uri {
			t.Errorf("next boot %q, want URI %q", next, uri)
		}
	}
}

// A reset of the keys leaves the switch of secure boot; the switch needs a platform key,
// which may be one that the next start brings.
func TestSecureBootIsStaged(t *testing.T) {
	m := open(t, Config{Name: "s", Dir: t.TempDir(), Firmware: UEFI, DiskMiB: 16, SecureBoot: true})
	shown := func(want SecureBoot) {
		t.Helper()
		if got, err := m.SecureBoot(); err != nil || got != want {
			t.Errorf("secure boot is %+v, want %+v (%v)", got, want, err)
		}
	}
	shown(SecureBoot{})
	if err := m.SetSecureBoot(true); !errors.Is(err, uefivars.ErrNoPlatformKey) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("on without a key: %v", err)
	}
	if err := m.ResetKeys(DefaultKeys); err != nil {
		t.Fatal(err)
	}
	shown(SecureBoot{})
	if err := m.SetSecureBoot(true); err != nil {
		t.Fatal(err)
	}
	shown(SecureBoot{Next: true})
	started(t, m)
	shown(SecureBoot{Next: true, Now: true, PlatformKey: true})
	db, err := m.Certificates("db")
	if err != nil || len(db) < 2 {
		t.Fatalf("db has %d certificates, %v", len(db), err)
	}
	der := certificate(t)
	for range 2 {
		if err := m.AddCertificate("db", der); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := m.Certificates("db"); err != nil || len(now) != len(db)+1 {
		t.Errorf("with one more, db has %d certificates, %v", len(now), err)
	}
	if err := m.SetSecureBoot(false); err != nil {
		t.Fatal(err)
	}
	shown(SecureBoot{Now: true, PlatformKey: true})
	started(t, m)
	shown(SecureBoot{PlatformKey: true})
	s, err := m.Variables()
	if err != nil {
		t.Fatal(err)
	}
	if now, err := s.Certificates("db"); err != nil || len(now) != len(db)+1 || !slices.Equal(now[len(db)], der) {
		t.Errorf("written: db has %d certificates, %v", len(now), err)
	}
	if err := errors.Join(m.SetSecureBoot(true), m.ResetKeys(NoPlatformKey)); err != nil {
		t.Fatal(err)
	}
	shown(SecureBoot{PlatformKey: true}) // on falls with the key
	started(t, m)
	shown(SecureBoot{})
	if kek, err := m.Certificates("KEK"); err != nil || len(kek) == 0 {
		t.Errorf("without the platform key, KEK has %d certificates, %v", len(kek), err)
	}
	if err := m.ResetKeys(NoKeys); err != nil {
		t.Fatal(err)
	}
	if kek, err := m.Certificates("KEK"); err != nil || len(kek) != 0 {
		t.Errorf("without keys, KEK has %d certificates, %v", len(kek), err)
	}
	if err := m.AddCertificate("PK", der); err != nil {
		t.Fatal(err)
	}
	started(t, m)
	shown(SecureBoot{PlatformKey: true}) // the switch stays off
	for what, err := range map[string]error{"reset": m.ResetKeys("half"), "database": m.AddCertificate("MOK", der), "certificate": m.AddCertificate("db", der[:9])} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("bad %s: %v", what, err)
		}
	}
}

// What a machine cannot do it refuses with the reason.
func TestSettingsRefused(t *testing.T) {
	bios := open(t, testConfig(t, nil))
	byQEMU := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, Tap: "tap0", MAC: testMAC, DiskMiB: 16})
	noCard := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, DiskMiB: 16, BootByVariables: true})
	for _, c := range []struct {
		m    *Machine
		want error
	}{{bios, ErrNoVariables}, {byQEMU, ErrOrderByQEMU}, {noCard, ErrNoCard}} {
		if _, _, err := c.m.BootOptions(); c.m != noCard && !errors.Is(err, c.want) {
			t.Errorf("boot options: %v, want %v", err, c.want)
		}
		_, readURI := c.m.HTTPBootURI()
		_, _, _, readISCSI := c.m.ISCSI()
		for what, err := range map[string]error{
			"HTTP": c.m.SetBootOverride(HTTP, true), "URI": c.m.SetHTTPBootURI("http://10.0.0.1/a"), "reading the URI": readURI,
			"iSCSI": c.m.SetISCSI("iqn.2026-11.org.example:a", oneAttempt), "reading iSCSI": readISCSI,
		} {
			if !errors.Is(err, c.want) || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
		}
		_, read := c.m.SecureBoot()
		for what, err := range map[string]error{"switch": c.m.SetSecureBoot(true), "keys": c.m.ResetKeys(NoKeys), "certificate": c.m.AddCertificate("db", nil), "reading": read} {
			if !errors.Is(err, ErrNoSecureBoot) || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("secure boot, %s: %v", what, err)
			}
		}
	}
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, Tap: "tap0", MAC: testMAC, DiskMiB: 16, BootByVariables: true})
	short := slices.Clone(oneAttempt)
	short[0].CHAP = &uefivars.CHAP{Name: "me", Secret: "hidden"}
	if err := m.SetISCSI("iqn.2026-11.org.example:a", short); !errors.Is(err, errors.ErrUnsupported) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("a short secret: %v", err)
	}
	if _, next, _, err := m.ISCSI(); next != nil || err != nil {
		t.Errorf("a refused setting is staged: %+v, %v", next, err)
	}
}

// A boot order is staged as a whole: it names all options that have a place in it.
func TestBootOrderIsStaged(t *testing.T) {
	m := open(t, Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, Tap: "tap0", MAC: testMAC, DiskMiB: 16, BootByVariables: true})
	if err := m.SetBootNext(m.HTTPOption("http://10.0.0.1/a")); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		t.Helper()
		options, ordered, err := m.BootOptions()
		if err != nil || len(options) != 3 || ordered < 2 {
			t.Fatalf("options %+v, %d ordered, %v", options, ordered, err)
		}
		for _, o := range options {
			all = append(all, o.Description)
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{diskDescription, networkDescription, httpDescription}) {
		t.Errorf("options %q", got)
	}
	options, _, _ := m.BootOptions()
	disk, network, uri := options[0].Name, options[1].Name, options[2].Name
	if err := m.OrderBoot([]string{uri, network, disk}); err != nil {
		t.Fatal(err)
	}
	want := []string{httpDescription, networkDescription, diskDescription}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("staged: %q", got)
	}
	if order, _ := wanted(t, m); slices.Equal(order, want) {
		t.Error("the order was written before a start")
	}
	started(t, m)
	if order, _ := wanted(t, m); !slices.Equal(order, want) {
		t.Errorf("written: %q", order)
	}
	for _, bad := range [][]string{nil, {disk}, {disk, network, uri, "Boot0009"}, {disk, network, uri, disk}, {disk, network, uri, "boot"}} {
		if err := m.OrderBoot(bad); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("order %q: %v", bad, err)
		}
	}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("refused orders left %q", got)
	}
}
