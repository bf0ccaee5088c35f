package boot

import (
	"strings"
	"testing"
)

// The answer to the question for the parameters of a boot comes by plain HTTP. Where the signed program names its rackd's
// certificate, a stranger on the wire may withhold the answer. The stranger cannot have disks erased that other machines use.
func TestStrangersAnswer(t *testing.T) {
	pin := strings.Repeat("ab", 32)
	words := "ipa-api-url=https://10.0.0.1:6386 ironyard-api-fingerprint=" + pin + " ipa-guard-special-filesystems=false ipa-debug=1"
	for name, c := range map[string]struct {
		of     Flags
		shared bool
	}{
		"signed with a certificate":          {Flags{Ramdisk: true, AskDHCP: true, APIFingerprint: pin}, false},
		"signed, and says so itself":         {Flags{Ramdisk: true, AskDHCP: true, APIFingerprint: pin, EraseShared: true}, true},
		"believes what a rackd tells it all": {Flags{Ramdisk: true, AskDHCP: true}, true},
	} {
		f := c.of
		if err := f.told(words); err != nil {
			t.Fatal(err)
		}
		if f.EraseShared != c.shared || f.APIURL != "https://10.0.0.1:6386" || f.APIFingerprint != pin || !f.Debug {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
