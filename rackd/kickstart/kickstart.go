// Package kickstart makes the kickstart that an installer (Anaconda) follows: it fills Ironic's variables into a template,
// the one of this package or an operator's.
//
// It imports nothing of Ironyard. Of Jinja2, in which Ironic's templates are written, it reads what those need: variables,
// conditions on whether one is there, comments, and the trimming of white space. Anything else is refused with its line, and never
// left as text. Invariants: a template that cannot report to a rackd is refused; nothing of what it fills in is in an error.
package kickstart

import (
	_ "embed" // for the template
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Names of the variables, below ks_options, with Ironic's names. Those that begin with Own are Ironyard's.
const (
	ImageURL    = "liveimg_url"
	Token       = "agent_token"
	Heartbeat   = "heartbeat_url"
	ConfigDrive = "config_drive"
	// IsPath is there where ImageURL is a repository and no image; Insecure where the certificate behind Heartbeat is a rackd's
	// own, which no authority has signed.
	IsPath   = "is_source_a_path"
	Insecure = "insecure_heartbeat"
	// Heartbeats are all URLs that take reports, divided by spaces. TLS are curl's options for them. Checksum is that of the
	// image as the command liveimg takes it.
	Heartbeats = "ironyard_heartbeat_urls"
	TLS        = "ironyard_curl_tls"
	Checksum   = "ironyard_liveimg_checksum"
)

// needed are the variables that a template has to use, as in Ironic.
var needed = []string{ImageURL, Token, Heartbeat}

// known are all variables, with what stands for them while a template is judged.
var known = map[string]string{ImageURL: "fake_image_url", Token: "fake_token", Heartbeat: "fake_heartbeat_url", ConfigDrive: "",
	Heartbeats: "fake_heartbeat_url", TLS: ""}

//go:embed default.ks
var defaultText string

// ErrInvalid is wrapped by errors about a template or a config drive.
var ErrInvalid = errors.New("invalid kickstart")

// Values are those of the variables.
type Values map[string]string

// Default returns the package's own template.
func Default() *Template {
	t, err := Parse(defaultText)
	if err != nil {
		panic(err) // a test reads it
	}
	return t
}

// sometimes are the variables that only some deploys have.
var sometimes = []string{IsPath, Insecure, Checksum}

// Judge refuses a template that uses what is no variable, or lacks one without which its installer cannot report. It is judged for each
// deploy that there may be. What is wrong with one of them would else show when its machine asks for the kickstart.
func (t *Template) Judge() error {
	var missing []string
	for which := range 1 << len(sometimes) {
		values := maps.Clone(known)
		for i, name := range sometimes {
			if which&(1<<i) != 0 {
				values[name] = "fake_" + name
			}
		}
		text, err := t.Render(values)
		if err != nil {
			return fmt.Errorf("%w: the kickstart template includes a variable that is not a valid kickstart option: %w. The valid options are %s",
				ErrInvalid, err, strings.Join(append(slices.Sorted(maps.Keys(known)), sometimes...), ","))
		}
		for _, name := range needed {
			own := which > 0 && name == ImageURL // a repository may be the template's own
			if !own && !strings.Contains(text, known[name]) && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: Following required kickstart option variables are missing from the kickstart template: %s", ErrInvalid, strings.Join(missing, ","))
	}
	return nil
}

// File is a file of a config drive.
type File struct {
	Name string // from the root of the drive, such as openstack/latest/user_data
	Body []byte
}

// seed is where cloud-init looks for the files of a config drive that is no disk.
const seed = "/var/lib/cloud/seed/config_drive"

// Bounds of the config drive in a kickstart. Installers hold it in memory several times.
const (
	maxFiles = 256
	maxBytes = 8 << 20
)

var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

// Drive returns the sections that write the files of a config drive into the installed system, where cloud-init looks for them. One that
// cannot be written fails the installation.
func Drive(files []File) (string, error) {
	if len(files) > maxFiles {
		return "", fmt.Errorf("%w: the config drive has %d files, and a kickstart holds %d", ErrInvalid, len(files), maxFiles)
	}
	var b strings.Builder
	total := 0
	for _, f := range files {
		if !plain.MatchString(f.Name) {
			return "", fmt.Errorf("%w: the config drive has a file %.100q, whose name a kickstart does not take", ErrInvalid, f.Name)
		}
		if total += len(f.Body); total > maxBytes {
			return "", fmt.Errorf("%w: the files of the config drive have more than %d MiB, which a kickstart does not take", ErrInvalid, maxBytes>>20)
		}
		at := path.Join(seed, f.Name)
		fmt.Fprintf(&b, "%%post --erroronfail\nset -e\nmkdir -p -m 700 '%s'\numask 077\nbase64 -d >'%s' <<'END-OF-FILE'\n%s\nEND-OF-FILE\n%%end\n\n",
			path.Dir(at), at, lines(base64.StdEncoding.EncodeToString(f.Body)))
	}
	return b.String(), nil
}

// lines breaks base64 into lines.
func lines(text string) string {
	var b strings.Builder
	for len(text) > 76 {
		b.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	return b.String() + text
}
