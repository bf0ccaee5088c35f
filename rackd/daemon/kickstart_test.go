package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/agentdoor"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/lease"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
	"github.com/ironyard/ironyard/rackd/strangers"
)

const installNode = "11111111-1111-4111-8111-111111111111"

// heard is a conductor that hears an installer.
type heard struct {
	mu    sync.Mutex
	beats []agentapi.Heartbeat
}

func (*heard) LookupAgent(context.Context, ask.Lookup) (agentapi.LookupReply, error) {
	return agentapi.LookupReply{}, os.ErrNotExist
}
func (*heard) CheckToken(string, string) error { return nil }
func (h *heard) Heartbeat(_ context.Context, _ string, hb ask.Heartbeat) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beats = append(h.beats, hb.Heartbeat)
	return nil
}

// kickstartsFor makes kickstarts for a door at an address.
func kickstartsFor(t *testing.T, identity agentdoor.Identity, doors []string, template string) kickstarts {
	t.Helper()
	drive, err := configdrive.Build(t.Context(), nil, `{"user_data":"#cloud-config\n%end 'x'\n"}`, configdrive.Defaults{UUID: "u", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return kickstarts{
		installation: func(context.Context, string, string) (conductor.Installation, error) {
			return conductor.Installation{Token: "s3cret", Drive: drive}, nil
		},
		open:     func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(template)), nil },
		identity: func(string) agentdoor.Identity { return identity },
		ramdisk:  func(netboot.Machine) ipxescript.Ramdisk { return ipxescript.Ramdisk{Doors: doors} },
	}
}

func newIdentity(t *testing.T) (*seal.Key, agentdoor.Identity) {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	id, err := agentdoor.NewIdentity(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, id
}

func installing(i bootorder.Installer) netboot.Machine {
	return netboot.Machine{UUID: installNode, BootID: "b", Order: bootorder.Install(bootorder.Load{Instance: true, Installer: &i})}
}

var section = regexp.MustCompile(`(?ms)^%(pre|post|onerror)([^\n]*)\n(.*?)^%end$`)

// The scripts of rackd's own kickstart report to the agents' door, by the shell and the curl that installers have. They believe that
// door alone, and turn to the next where one does not answer. The door is of a rackd that stands in for the machine's group.
func TestTheKickstartsScriptsReport(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	key, id := newIdentity(t)
	spare, _ := newIdentity(t)
	ids, err := agentdoor.NewIdentities(seal.NewKeyring("spare", spare).With("own", key), "spare", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served, conductor := make(chan error, 1), &heard{}
	status := func(error) int { return http.StatusUnauthorized }
	go func() {
		served <- agentdoor.New(conductor, status, strangers.New(strangers.Budget{}, nil, nil), slog.New(slog.DiscardHandler)).Serve(ctx, l, ids)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	doors := []string{"https://" + gone.Addr().String(), "https://" + l.Addr().String()}
	k := kickstartsFor(t, id, doors, "")
	text, err := k.Kickstart(t.Context(), installing(bootorder.Installer{Image: bootorder.File{URL: "http://x"}, Checksum: strings.Repeat("ab", 32)}), "http://rack/image.tgz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sections := section.FindAllStringSubmatch(text, -1)
	for _, s := range sections {
		// The paths of the installed system lie in a folder.
		script := strings.ReplaceAll(s[3], "/var/lib/", dir+"/var/lib/")
		cmd := exec.Command("sh", "-s")
		cmd.Stdin = strings.NewReader(script)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%%%s%s: %v: %s", s[1], s[2], err, said)
		}
	}
	var got []string
	for _, b := range conductor.beats {
		if b.AgentToken != "s3cret" || b.CallbackURL != "" || b.StatusMessage == "" {
			t.Errorf("report %+v", b)
		}
		got = append(got, b.Status)
	}
	if strings.Join(got, " ") != "start error end" {
		t.Errorf("reports %q", got)
	}
	user, err := os.ReadFile(filepath.Join(dir, "var/lib/cloud/seed/config_drive/openstack/latest/user_data"))
	if err != nil || string(user) != "#cloud-config\n%end 'x'\n" {
		t.Errorf("user data %q, %v", user, err)
	}
	_, stranger := newIdentity(t)
	text, err = kickstartsFor(t, stranger, doors[1:], "").Kickstart(t.Context(), installing(bootorder.Installer{Repository: "http://x/"}), "http://x/")
	if err != nil {
		t.Fatal(err)
	}
	first := section.FindStringSubmatch(text)
	cmd := exec.Command("sh", "-s")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(first[3], "sleep 10", "break"))
	if said, err := cmd.CombinedOutput(); err == nil || len(conductor.beats) != 3 {
		t.Errorf("a door with another key is believed: %s", said)
	}
}

// An installer reports by the version of IP by which it asked: it may have no other.
func TestInstallersReportByTheirVersionOfIP(t *testing.T) {
	key, id := newIdentity(t)
	ids, err := agentdoor.NewIdentities(seal.NewKeyring("own", key), "own", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("undionly.kpxe")
	rack := &Rack{Address: netip.MustParseAddr("10.0.0.1"), Address6: netip.MustParseAddr("fd00::1"), HTTPPort: 8080, AgentPort: 6386, Kernel: file("k"), Ramdisk: file("r")}
	r := &rackd{cfg: Config{Name: "r", Group: "own", Rack: rack}, identities: ids, lease: &lease.Lease{}}
	paths := bootfiles.Paths{Kernel: rack.Kernel, Ramdisk: rack.Ramdisk}
	if r.files, err = bootfiles.New(dir, paths); err != nil {
		t.Fatal(err)
	}
	if r.ramdisks, err = rackramdisk.New(paths, nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range rack.faces() {
		k := kickstartsFor(t, id, nil, "")
		k.ramdisk = r.kickstarts(f).ramdisk
		text, err := k.Kickstart(t.Context(), installing(bootorder.Installer{Repository: "http://x/"}), "http://x/")
		to := ".ironyard:6386:" + strings.TrimPrefix(f.agents(), "https://") + " "
		if want := "/v1/heartbeat/" + installNode; err != nil || !strings.Contains(text, want) || !strings.Contains(text, to) {
			t.Errorf("%v: it does not report to %s at %s:\n%s", err, want, to, text)
		}
	}
}

// An operator's template, written for Ironic, is filled as Ironic fills it.
func TestTemplatesOfOperators(t *testing.T) {
	_, id := newIdentity(t)
	template := "{% if 'is_source_a_path' in ks_options -%}\nurl --url {{ ks_options.liveimg_url }}\n{% else -%}\nliveimg --url {{ ks_options.liveimg_url }}\n{% endif -%}\n" +
		"curl {% if 'insecure_heartbeat' in ks_options %}--insecure{% endif %} {{ ks_options.agent_token }} {{ ks_options.heartbeat_url }}"
	for image, i := range map[string]bootorder.Installer{
		"liveimg --url http://i\n": {Image: bootorder.File{URL: "http://x"}}, "url --url http://i\n": {Repository: "http://i"}} {
		i.Template = bootorder.File{URL: "http://x/ks", ID: "sha256-x"}
		got, err := kickstartsFor(t, id, []string{"https://d/"}, template).Kickstart(t.Context(), installing(i), "http://i")
		if want := image + "curl --insecure s3cret https://d/v1/heartbeat/" + installNode + "\n"; err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// pykickstart's validator takes what is served, for the versions whose commands an installer of today has.
func TestKickstartsAreValid(t *testing.T) {
	at := os.Getenv("IRONYARD_PYKICKSTART")
	if at == "" {
		t.Skip("pykickstart's validator is in none of Debian 12's packages; IRONYARD_PYKICKSTART names a checkout (make kickstart)")
	}
	_, id := newIdentity(t)
	k := kickstartsFor(t, id, []string{"https://10.77.0.1:9999", "https://10.77.0.2:9999"}, "")
	var paths []string
	dir := t.TempDir()
	for name, i := range map[string]bootorder.Installer{"image": {Image: bootorder.File{URL: "http://x"}}, "image-checksum": {Image: bootorder.File{URL: "http://x"}, Checksum: strings.Repeat("ab", 32)},
		"repository": {Repository: "http://x/"}} {
		text, err := k.Kickstart(t.Context(), installing(i), "http://10.77.0.1:8080/boot/installer/"+installNode+"/b/image.tgz")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name+".cfg")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for _, version := range []string{"RHEL8", "RHEL9", "RHEL10", "F40"} {
		cmd := exec.Command("python3", append([]string{filepath.Join(at, "tools", "ksvalidator.py"), "-e", "-v", version}, paths...)...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+at)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", version, err, said)
		} else {
			t.Logf("%s takes what is served", version)
		}
	}
	broken := filepath.Join(t.TempDir(), "broken.cfg")
	if err := os.WriteFile(broken, []byte("liveimg --nothing=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", filepath.Join(at, "tools", "ksvalidator.py"), "-v", "RHEL9", broken)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+at)
	if err := cmd.Run(); err == nil {
		t.Error("the validator takes everything")
	}
}
