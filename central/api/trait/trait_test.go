package trait

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	for name, want := range map[string]bool{
		"CUSTOM_A": true, "CUSTOM_A_1": true, "HW_CPU_X86_VMX": true, "COMPUTE_TRUSTED_CERTS": true, "STORAGE_DISK_SSD": true,
		"MISC_SHARES_VIA_AGGREGATE": true, "OWNER_NOVA": true, "CUSTOM_" + strings.Repeat("A", 248): true,
		"CUSTOM_" + strings.Repeat("A", 249): false, "CUSTOM_": false, "CUSTOM_a": false, "CUSTOM_A-B": false, "custom_a": false,
		"HW_NONESUCH": false, "COMPUTE_FOO": false, "": false, "CUSTOM_A\n": false,
	} {
		if got := Valid(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

// The list is in order, so that an addition shows; a name of it is one.
func TestList(t *testing.T) {
	names := strings.Fields(list)
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("the list is out of order, or has a name twice")
	}
	form := regexp.MustCompile(`^(HW|COMPUTE|STORAGE|MISC|OWNER)(_[A-Z0-9]+)+$`)
	for _, name := range names {
		if !form.MatchString(name) {
			t.Errorf("%q is no name of the standard", name)
		}
	}
}
