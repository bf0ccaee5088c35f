package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// settings are the flags with a default of which a demo, a rack or a fleet sets another value, by folder, with the
// reason: users run the defaults, so all else runs them too. Where things are (addresses, ports, folders, names, files)
// is no such setting.
var settings = map[string]map[string]string{
	"e2e/attack": {
		"--bmc-timeout":      "BMCs that never answer are attacked with",
		"--deadline":         "a work that the thief holds up ends within the test",
		"--max-requests":     "a bench of strangers fills the API",
		"--power-sync":       "one site asks BMCs often, for a thief who listens",
		"--dhcp":             "the machines have fixed addresses",
		"--oidc-roles-claim": "the tokens are of an issuer with a claim of its own",
	},
	"e2e/faults": {
		"--bmc-timeout":    "BMCs that are cut off are to be noticed within a test of minutes",
		"--deadline":       "what waits for a machine that never comes ends within the test",
		"--power-sync":     "power is read often, beside all else",
		"--power-recovery": "machines whose host was paused are well again within the test",
	},
	"e2e/faults/places": {"--deadline": "what waits for a machine that a person has switched off ends within the test", "--power-sync": "nothing but the flow writes", "--dhcp": "the machines are processes on loopback",
		"--power-recovery": "BMCs that refuse a right login are asked again within the test", "--bmc-timeout": "answers that are lost are given up within the test"},
	"ops/virtual/fleet": {"--dhcp": "the machines are processes on loopback", "--heartbeat-timeout": "flows at any heartbeat are what a test is about",
		"--deadline": "a machine that boots nothing fails within the test"},
	"e2e/scenario": {
		"--heartbeat-timeout": "a deploy at a heartbeat of 300 s, Ironic's default, is what a test is about",
		"--bmc-timeout":       "a BMC that hangs is to be noticed",
		"--deadline":          "a machine that boots nothing fails within the test",
		"--dhcp":              "a network without IPv4 is what a test is about",
		"--power-recovery":    "a fault of power comes and goes within the test",
		"--power-sync":        "a fault of power comes and goes within the test",
		"--pxe-loader":        "shim and GRUB in place of iPXE are what a test is about",
	},
	"e2e/clients/pythonagent": {"--kernel-params": "the foreign ramdisk believes the rack's certificate"},
	"e2e/faults/topology":     {"--keep-history": "the judge reads the whole history", "--keep-works": "and all works", "--dhcp": "the machines are processes that ask no DHCP", "--replicas": "three servers of a cluster hold each stream"},
}

// where are flags with a default that say where things are.
var where = []string{"--prefix", "--boot-programs", "--http-port", "--https-port", "--agent-port", "--auth"}

var flagText = regexp.MustCompile(`^--[a-z][a-z0-9-]*(=.*)?$`)

// tuned are the flags of a program that have a default and say how it behaves, not where things are.
func tuned(t *testing.T, file string) (names []string) {
	t.Helper()
	ast.Inspect(parsed(t, file), func(n ast.Node) bool {
		field, is := n.(*ast.Field)
		if !is || field.Tag == nil || len(field.Names) != 1 {
			return true
		}
		text, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return true
		}
		tag := reflect.StructTag(text)
		name := tag.Get("name")
		if name == "" {
			name = kebab(field.Names[0].Name)
		}
		group, hasGroup := tag.Lookup("group")
		_, has := tag.Lookup("default")
		if name == "deadline" || name == "max-requests" || has && hasGroup && !slices.Contains([]string{"", "BMCs"}, group) {
			names = append(names, "--"+name)
		}
		return true
	})
	return names
}

func kebab(name string) string {
	var b strings.Builder
	upper := func(i int) bool { return name[i] >= 'A' && name[i] <= 'Z' }
	for i, r := range name {
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(name) && !upper(i+1)) {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// Demo, racks and fleets run the product's defaults, but for what is listed here.
func TestDefaultsAreWhatIsTested(t *testing.T) {
	var flags []string
	for _, pattern := range []string{"../../rackd/command/*.go", "../../central/command/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				flags = append(flags, tuned(t, f)...)
			}
		}
	}
	for _, want := range []string{"--heartbeat-timeout", "--power-sync", "--deadline", "--keep-history", "--dhcp", "--max-requests"} {
		if !slices.Contains(flags, want) {
			t.Errorf("%s is not found among the flags: %v", want, flags)
		}
	}
	used := map[string]map[string]bool{}
	for _, root := range []string{"ops", "e2e"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.Contains(path, "ops/lint") || strings.Contains(path, "e2e/bench") {
				return err // benchmarks say what they set beside their figures
			}
			if filepath.Base(path) == "commands_test.go" {
				return nil // of another program
			}
			folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
			ast.Inspect(parsed(t, path), func(n ast.Node) bool {
				l, is := n.(*ast.BasicLit)
				if !is || l.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(l.Value)
				if err != nil || !flagText.MatchString(text) {
					return true
				}
				name, _, _ := strings.Cut(text, "=")
				if !slices.Contains(flags, name) || slices.Contains(where, name) {
					return true
				}
				if used[folder] == nil {
					used[folder] = map[string]bool{}
				}
				used[folder][name] = true
				if settings[folder][name] == "" {
					t.Errorf("%s sets %s: users run the default. Leave it out, or say in ops/lint/settings_test.go what the test is about", path, name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for folder, list := range settings {
		for name := range list {
			if !used[folder][name] {
				t.Errorf("%s does not set %s any more: strike it from the list", folder, name)
			}
		}
	}
}
