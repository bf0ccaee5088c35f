package cmdline

import (
	"reflect"
	"strings"
	"testing"
)

const pin = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       Params
	}{
		{"all", "console=ttyS0 ipa-api-url=https://10.0.0.1:6386/,https://[fd00::1]:6386 ironyard-api-fingerprint=" + strings.ToUpper(pin) +
			" BOOTIF=01-AA-bb-cc-dd-ee-ff ipa-debug ironyard-node=n-1\n",
			Params{APIURLs: []string{"https://10.0.0.1:6386", "https://[fd00::1]:6386"}, Fingerprint: pin, BootMAC: "aa:bb:cc:dd:ee:ff", Node: "n-1", Debug: true}},
		{"plain mac, debug off", "BOOTIF=aa:bb:cc:dd:ee:ff ipa-debug=0", Params{BootMAC: "aa:bb:cc:dd:ee:ff"}},
		{"shared disks erased", "ipa-guard-special-filesystems=False", Params{EraseShared: true}},
		{"shared disks guarded", "ipa-guard-special-filesystems", Params{}},
		{"quotes", `dyndbg="file a.c +p" ironyard-node="n 1"`, Params{Node: "n 1"}},
		{"last wins", "ironyard-node=a ironyard-node=b", Params{Node: "b"}},
		{"nothing of ours", "quiet splash", Params{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.line)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("Parse = %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestParseNamesTheBadParameter(t *testing.T) {
	for line, want := range map[string]string{
		"ipa-api-url=http://10.0.0.1":       "ipa-api-url",
		"ipa-api-url=,":                     "ipa-api-url",
		"ironyard-api-fingerprint=abc":      "ironyard-api-fingerprint",
		"BOOTIF=eth0":                       "BOOTIF",
		"a=" + strings.Repeat("x", MaxLine): "bytes",
	} {
		if _, err := Parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.40q) = %v, want an error with %q", line, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("ipa-api-url=https://10.0.0.1:6386 BOOTIF=01-aa-bb-cc-dd-ee-ff ironyard-api-fingerprint=" + pin)
	f.Add(`x="a b" ipa-debug=1`)
	f.Fuzz(func(t *testing.T, line string) {
		p, err := Parse(line)
		if err != nil {
			return
		}
		if p.Fingerprint != "" && len(p.Fingerprint) != 64 {
			t.Errorf("fingerprint %q", p.Fingerprint)
		}
		for _, u := range p.APIURLs {
			if !strings.HasPrefix(u, "https://") {
				t.Errorf("URL %q is not https", u)
			}
		}
	})
}
