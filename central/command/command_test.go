package command

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/strangers"
	"github.com/ironyard/ironyard/protocol/seal"
)

func TestFlagsBecomeAConfig(t *testing.T) {
	var text bytes.Buffer
	if err := (keyGenerate{}).Run(&text); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ParseKey(text.String()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var f flags
	parser, err := kong.New(&f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve", "--database", "sqlite:x", "--key-file", file, "--bus", "nats://h", "--replicas", "3",
		"--site", "east=Rack1,rack2", "--site", "west", "--failover", "rack1=Rack2", "--failover", "rack2=rack1", "--default-conductor-group", "rack1", "--max-concurrent-clean", "50", "--discovery-driver", "redfish"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.Serve.config(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Sites) != 2 || strings.Join(cfg.Sites[0].Groups, " ") != "rack1 rack2" || cfg.Sites[1].Name != "west" ||
		len(cfg.Failover) != 2 || cfg.Failover[0].Group != "rack1" || strings.Join(cfg.Failover[0].To, " ") != "rack2" ||
		cfg.Sites[0].Settings.Replicas != 3 || cfg.Key == nil || cfg.Nodes.DefaultConductorGroup != "rack1" || cfg.Nodes.Limits.Cleans != 50 || cfg.Nodes.Limits.Deploys != 0 || cfg.Listen != "127.0.0.1:6385" ||
		cfg.Discovery != (api.Discovery{Driver: "redfish", Most: api.DefaultDiscoveries}) || cfg.Strangers != (strangers.Budget{}.WithDefaults()) {
		t.Errorf("config %+v", cfg)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if _, err := f.Serve.config(slog.New(slog.NewTextHandler(&said, nil))); err != nil || !strings.Contains(said.String(), file) {
		t.Errorf("a key that everybody may read: %v, it said %q", err, said.String())
	}
}

// TestInspectionFlags holds that what is chosen reaches the hooks, and that the help names every hook
// there is and no other.
func TestInspectionFlags(t *testing.T) {
	field, _ := reflect.TypeFor[inspectionFlags]().FieldByName("InspectionHooks")
	_, names, _ := strings.Cut(strings.ReplaceAll(field.Tag.Get("help"), "Others: ", ""), "Default: ")
	hooks := strings.FieldsFunc(names, func(r rune) bool { return strings.ContainsRune(" ,.", r) })
	var f flags
	parser, err := kong.New(&f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve", "--database", "sqlite:x", "--bus", "nats://h", "--inspection-hooks", strings.Join(hooks, ","), "--inspection-add-ports", "all", "--inspection-keep-ports", "present",
		"--inspection-physical-network", "192.0.2.0/24=lab", "--inspection-pci-alias", "8086:0953=nvme", "--inspection-extra-hardware-strict"}); err != nil {
		t.Fatal(err)
	}
	got, err := f.Serve.processor()
	if err != nil {
		t.Fatal(err)
	}
	want, err := inspection.New(inspection.Settings{Hooks: hooks, AddPorts: "all", KeepPorts: "present", PhysicalNetworks: map[string]string{"192.0.2.0/24": "lab"},
		PCIAliases: map[string]string{"8086:0953": "nvme"}, ExtraHardwareStrict: true})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("processor %+v, want %+v", got, want)
	}
	slices.Sort(hooks)
	if _, err = inspection.New(inspection.Settings{Hooks: []string{"?"}}); err == nil || !strings.HasSuffix(err.Error(), strings.Join(hooks, ", ")) {
		t.Errorf("the help names %v, there are: %v", hooks, err)
	}
}

func TestMigrate(t *testing.T) {
	m := migrate{database{"sqlite:" + filepath.Join(t.TempDir(), "central.db")}}
	for range 2 {
		if err := m.Run(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
}
