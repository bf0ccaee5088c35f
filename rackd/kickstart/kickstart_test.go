package kickstart

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	for name, c := range map[string]struct{ template, want, wrong string }{
		"variables":        {"a {{ ks_options.agent_token }} {{ks_options['heartbeat_url']}}\n", "a T H\n", ""},
		"an own key":       {`url {{ ks_options["liveimg_url"] }}`, "url L\n", ""},
		"in":               {"{% if 'agent_token' in ks_options %}yes{% else %}no{% endif %}", "yes\n", ""},
		"not in":           {"{% if 'agent_token' not in ks_options %}yes{% else %}no{% endif %}", "no\n", ""},
		"elif":             {"{% if ks_options.nothing is defined %}1{% elif ks_options.agent_token %}2{% else %}3{% endif %}", "2\n", ""},
		"not":              {"{% if not ks_options.nothing %}1{% endif %}", "1\n", ""},
		"none holds":       {"{% if 'x' in ks_options %}{{ ks_options.x }}{% endif %}", "\n", ""},
		"white space":      {"a\n{% if 'agent_token' in ks_options -%}\n  b\n{%- endif %}\nc", "a\nb\nc\n", ""},
		"white space lost": {"a\n{%- if 'agent_token' in ks_options %} b{% endif -%}\n\nc", "a bc\n", ""},
		"comment":          {"a{# {{ ks_options.x }} #}b", "ab\n", ""},
		"nested":           {"{% if 'agent_token' in ks_options %}{% if 'x' in ks_options %}1{% else %}2{% endif %}3{% endif %}", "23\n", ""},
		"percent":          {"%pre\n%end", "%pre\n%end\n", ""},
		"unknown":          {"a\n{{ ks_options.x }}", "", "line 2 uses ks_options.x"},
		"another object":   {"{{ config.token }}", "", "only ks_options.NAME"},
		"a filter":         {"{{ ks_options.agent_token|upper }}", "", "only ks_options.NAME"},
		"a loop":           {"\n{% for x in y %}{% endfor %}", "", "line 2 of the template"},
		"no endif":         {"{% if 'x' in ks_options %}a", "", "no endif"},
		"no if":            {"a{% endif %}", "", "no if before it"},
		"else twice":       {"{% if 'x' in ks_options %}{% else %}{% else %}{% endif %}", "", "after else"},
		"not closed":       {"a {{ ks_options.x", "", "does not end"},
		"a condition":      {"{% if 1 == 1 %}{% endif %}", "", "only whether"},
		"deep":             {strings.Repeat("{% if 'x' in ks_options %}", 40), "", "deep"},
	} {
		parsed, err := Parse(c.template)
		var got string
		if err == nil {
			got, err = parsed.Render(Values{Token: "T", Heartbeat: "H", ImageURL: "L"})
		}
		if c.wrong == "" && (err != nil || got != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %q, %v, want %q, %q", name, got, err, c.want, c.wrong)
		}
	}
}

func TestTemplatesAreJudged(t *testing.T) {
	if err := Default().Judge(); err != nil {
		t.Errorf("the package's own: %v", err)
	}
	whole := "{{ ks_options.liveimg_url }} {{ ks_options.agent_token }} {{ ks_options.heartbeat_url }}"
	for text, want := range map[string]string{
		whole: "",
		whole + "{{ ks_options.config_drive }}{% if 'insecure_heartbeat' in ks_options %}-k{% endif %}": "",
		whole + "{{ ks_options.other }}": "not a valid kickstart option",
		// What only some deploys have shows before one of them.
		whole + "{% if 'is_source_a_path' in ks_options %}{{ ks_options.other }}{% endif %}":                                         "not a valid kickstart option",
		"{% if 'insecure_heartbeat' in ks_options %}{{ ks_options.agent_token }}{% else %}" + whole + "{% endif %}":                  "missing from the kickstart template: heartbeat_url",
		whole + "{% if 'is_source_a_path' not in ks_options %}{{ ks_options.is_source_a_path }}{% endif %}":                          "not a valid kickstart option",
		"{% if 'is_source_a_path' in ks_options %}" + whole + "{% else %}" + whole + "{{ ks_options.config_drive }}" + "{% endif %}": "",
		"{{ ks_options.liveimg_url }}":          "missing from the kickstart template: agent_token,heartbeat_url",
		"liveimg --url=http://x/ {# nothing #}": "missing from the kickstart template: liveimg_url,agent_token,heartbeat_url",
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := parsed.Judge(); (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestConfigDrivesInKickstarts(t *testing.T) {
	text, err := Drive([]File{{"openstack/latest/user_data", []byte(strings.Repeat("a line with 'quotes' and %end\n", 20))}, {"openstack/latest/empty", nil}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(text, "\n%end\n") != 2 || !strings.Contains(text, "base64 -d >'/var/lib/cloud/seed/config_drive/openstack/latest/user_data'") {
		t.Errorf("the sections are\n%s", text)
	}
	for _, part := range strings.SplitAfter(strings.TrimSpace(text), "\n%end\n") {
		head, script, _ := strings.Cut(strings.TrimSpace(part), "\n")
		sh := exec.CommandContext(t.Context(), "/bin/sh", "-s")
		sh.Stdin = strings.NewReader(strings.ReplaceAll(strings.TrimSuffix(script, "%end"), seed, "/dev/null"))
		if out, err := sh.CombinedOutput(); head != "%post --erroronfail" || err == nil {
			t.Errorf("%s goes on when a file cannot be written: %v %s\n%s", head, err, out, script)
		}
	}
	for name, files := range map[string][]File{"a way out": {{"../etc/passwd", nil}}, "a quote": {{"a'b", nil}}, "absolute": {{"/a", nil}},
		"much": {{"a", make([]byte, maxBytes)}, {"b", []byte("1")}}, "many": make([]File, maxFiles+1)} {
		if _, err := Drive(files); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// All racks are away for some minutes when the installer has ended, and no report of its is lost by that: the deploy would fail with
// everything on the disk.
func TestReportsOutliveAnOutage(t *testing.T) {
	text, err := Default().Render(Values{Token: "T", Heartbeat: "H", Heartbeats: "https://a https://b", ImageURL: "L", IsPath: "true", ConfigDrive: "", TLS: ""})
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?ms)^%(pre|post|onerror)[^\n]*\n(.*?)^%end$`).FindAllStringSubmatch(text, -1)
	if len(sections) != 3 {
		t.Fatalf("%d sections that report", len(sections))
	}
	for _, s := range sections {
		dir := t.TempDir()
		// They are back after four minutes.
		for name, does := range map[string]string{"sleep": `read n <` + dir + `/slept; n=$((n + $1)); echo $n >` + dir + `/slept; test $n -lt 240 || : >` + dir + `/back`,
			"curl": `test -e ` + dir + `/back && exec cat >` + dir + `/said`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "slept"), []byte("0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		sh := exec.CommandContext(t.Context(), "/bin/sh", "-s")
		sh.Env, sh.Stdin = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), strings.NewReader(s[2])
		if out, err := sh.CombinedOutput(); err != nil {
			t.Errorf("the report of %%%s: %v\n%s", s[1], err, out)
		}
		if said, err := os.ReadFile(filepath.Join(dir, "said")); err != nil || !strings.Contains(string(said), `"agent_status"`) {
			t.Errorf("%%%s says %q, %v", s[1], said, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(defaultText)
	f.Add("{% if 'x' in ks_options -%} {{ ks_options.a }} {%- else %}{# #}{% endif %}")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if _, err := parsed.Render(Values{"a": "1"}); err == nil && strings.Count(text, "{{") == 0 && strings.Count(text, "{%") == 0 && strings.Count(text, "{#") == 0 {
			if got, _ := parsed.Render(nil); strings.TrimRight(got, "\n") != strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
				t.Fatalf("text without marks changes: %q", got)
			}
		}
	})
}
