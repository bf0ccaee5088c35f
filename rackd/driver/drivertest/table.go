package drivertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hooks are those of a Machine that a test may leave out.
var hooks = []string{"Management", "Lose", "Silence", "Hang", "WhileRead", "Spoil", "Restart", "Sessions", "Deny", "Second", "Forget", "Port", "Log"}

// has says which hooks a machine has.
func (m *Machine) has(logs bool) map[string]bool {
	return map[string]bool{"Management": m.Management != nil, "Lose": m.Lose != nil, "Silence": m.Silence != nil, "Hang": m.Hang != nil,
		"WhileRead": m.WhileRead != nil, "Spoil": m.Spoil != nil, "Restart": m.Restart != nil, "Sessions": m.Sessions != nil, "Deny": m.Deny != nil,
		"Second": m.Second != nil, "Forget": m.Forget != nil, "Port": m.Port != nil, "Log": logs}
}

// tableFile is the document with all machines and their hooks.
const tableFile = "docs/development/conformance.md"

// table is held by who reads or writes the document: tests of one package run beside each other.
var table sync.Mutex

// checkTable compares what a machine has with its lines in the document. With UPDATE_CONFORMANCE it writes them.
func checkTable(t *testing.T, test string, m *Machine) {
	if os.Getenv("IRONYARD_HARDWARE") != "" {
		t.Skip("with IRONYARD_HARDWARE machines have more hooks than the document says")
	}
	_, logs := logs.Load(t)
	root, folder := module(t)
	name := fmt.Sprintf("`%s` %s", folder, test)
	row, reasons := "| "+name+" |", []string(nil)
	for _, hook := range hooks {
		why := m.Without[hook]
		row += " " + map[bool]string{true: "yes", false: map[bool]string{true: "no", false: ""}[why != ""]}[m.has(logs)[hook]] + " |"
		if why != "" {
			reasons = append(reasons, fmt.Sprintf("- %s, %s: %s.", name, hook, why))
		}
	}
	slices.Sort(reasons)
	file := filepath.Join(root, tableFile)
	table.Lock()
	defer table.Unlock()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept, there []string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "| "+name+" |") || strings.HasPrefix(line, "- "+name+",") {
			there = append(there, line)
		} else {
			kept = append(kept, line)
		}
	}
	wanted := append([]string{row}, reasons...)
	if slices.Equal(there, wanted) {
		return
	}
	if os.Getenv("UPDATE_CONFORMANCE") == "" {
		t.Errorf("%s says\n%s\nwant\n%s\nWrite it with UPDATE_CONFORMANCE=1 go test -p 1.", tableFile, strings.Join(there, "\n"), strings.Join(wanted, "\n"))
		return
	}
	kept = placed(placed(kept, "| `", []string{row}), "- `", reasons)
	if err := os.WriteFile(file, []byte(strings.Join(kept, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// placed puts lines among those that begin alike, in order.
func placed(all []string, prefix string, lines []string) []string {
	for _, line := range lines {
		first := slices.IndexFunc(all, func(l string) bool { return strings.HasPrefix(l, prefix) && l > line })
		if first < 0 { // behind the last of them, or of what leads them in
			for i, l := range all {
				if strings.HasPrefix(l, prefix) || prefix == "| `" && strings.HasPrefix(l, "|") {
					first = i + 1
				}
			}
		}
		if first < 0 {
			first = len(all)
		}
		all = slices.Insert(all, first, line)
	}
	return all
}

// module is the folder of the module, and the package's in it.
func module(t *testing.T) (root, folder string) {
	t.Helper()
	at, err := os.Getwd()
	for root = at; err == nil; root = filepath.Dir(root) {
		_, found := os.Stat(filepath.Join(root, "go.mod"))
		if found == nil {
			folder, err = filepath.Rel(root, at)
			break
		}
		if !errors.Is(found, fs.ErrNotExist) || root == filepath.Dir(root) {
			err = found
		}
	}
	if err != nil {
		t.Fatalf("where the module is: %v", err)
	}
	return root, filepath.ToSlash(folder)
}
