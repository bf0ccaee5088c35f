package ansible

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	roothints "github.com/ironyard/ironyard/protocol/hints"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/imagefields"
)

// operators begin the values of root device hints that compare otherwise than by being equal.
var operators = []string{"=", "!=", "<", ">", "s!=", "s<", "s>", "<in>", "<all-in>", "<or>", "<range-in>"}

// hintsOf are the node's hints for its root device as playbooks take them. As in Ironic, hints with other operators than those
// of equality are refused.
func hintsOf(n *node.Document) (map[string]any, error) {
	given, _, err := roothints.RootDevice(n.InstanceInfo, n.Properties)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w: %w", n.Label(), err, driver.ErrInvalid)
	}
	hints, advanced := map[string]any{}, map[string]any{}
	for name, value := range given {
		text, is := value.(string)
		switch {
		case !is:
			hints[name] = value
		case strings.HasPrefix(text, "== "):
			number, err := strconv.Atoi(strings.TrimSpace(text[3:]))
			if err != nil {
				return nil, fmt.Errorf("node %s: the root device hint %s is %.60q, and no number follows: %w", n.Label(), name, text, driver.ErrInvalid)
			}
			hints[name] = number
		case strings.HasPrefix(text, "s== "):
			unescaped, err := url.PathUnescape(text[4:])
			if err != nil {
				return nil, fmt.Errorf("node %s: the root device hint %s is %.60q: %w", n.Label(), name, text, driver.ErrInvalid)
			}
			hints[name] = unescaped
		case operated(text):
			advanced[name] = text
		default:
			hints[name] = text
		}
	}
	if len(advanced) > 0 {
		return nil, driver.Refuse("Ansible-deploy does not support advanced root device hints based on oslo.utils operators. Present advanced hints for node %s are %v.", n.UUID, advanced)
	}
	return hints, nil
}

func operated(text string) bool {
	first, _, more := strings.Cut(text, " ")
	for _, o := range operators {
		if more && (first == o || first == o+"=") {
			return true
		}
	}
	return false
}

// emptyConfig is a configuration of Ansible's that says nothing.
const emptyConfig = "ansible.cfg"

// at is where the ramdisk's SSH server is.
type at struct {
	host string
	port int
}

// toldOf is what a playbook is told of a node as its fields are, in Ironic's names: the variable "ironic" but for what a run adds.
func toldOf(n *node.Document) (map[string]any, error) {
	hints, err := hintsOf(n)
	if err != nil {
		return nil, err
	}
	secret := imagefields.SecretFields()
	image := map[string]any{}
	for key, value := range n.InstanceInfo {
		if name, is := strings.CutPrefix(key, "image_"); is && !slices.Contains(secret, key) {
			image[name] = value
		}
	}
	told := map[string]any{"image": image}
	if len(hints) > 0 {
		told["root_device_hints"] = hints
	}
	if kept := n.Properties["skip_block_devices"]; kept != nil {
		told["skip_block_devices"] = kept
	}
	if len(n.TargetRAID) > 0 {
		told["raid_config"] = n.TargetRAID
	}
	return told, nil
}

// templates begin what Ansible executes within the text of a variable, on rackd's host. The last one changes what the others are.
var templates = []string{"{{", "{%", "{#", "#jinja2:"}

// plain refuses what is told of a node if Ansible would execute a part. Fields of driver_info that go with it are looked at, too. Who may
// write a node's fields has no say on rackd's host.
func plain(n *node.Document, told map[string]any, user, python string) error {
	for field, text := range map[string]string{fieldUser: user, fieldInterpreter: python} {
		if executes(text) {
			return fmt.Errorf("node %s: driver_info %s has the mark of a template, which Ansible would execute on rackd's host: remove it: %w", n.Label(), field, driver.ErrInvalid)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(told)) {
		raw, err := json.Marshal(told[name])
		if err != nil {
			return err
		}
		if executes(string(raw)) {
			return fmt.Errorf("node %s: its fields for the playbook's variable ironic.%s have the mark of a template (%s), which Ansible would execute on rackd's host: remove it: %w",
				n.Label(), name, strings.Join(templates, " "), driver.ErrInvalid)
		}
	}
	return nil
}

// pythonPath is what Ansible may start as Python. It gives the text to a shell.
var pythonPath = regexp.MustCompile(`^/[A-Za-z0-9_][A-Za-z0-9._/+-]*$`)

// plainPython refuses a path of Python that is more than a path.
func plainPython(n *node.Document) error {
	if at := n.DriverString(fieldInterpreter); at != "" && !pythonPath.MatchString(at) {
		return fmt.Errorf("node %s: driver_info %s is %.100q: give an absolute path, of letters, digits and the signs . _ / + - alone: %w", n.Label(), fieldInterpreter, at, driver.ErrInvalid)
	}
	return nil
}

func executes(text string) bool {
	return slices.ContainsFunc(templates, func(mark string) bool { return strings.Contains(text, mark) })
}

// write makes the files of a run below dir, which its user alone may read, and returns the arguments that name them.
func write(ctx context.Context, t *driver.Task, dir string, to at, served driver.DiskImage) (args []string, err error) {
	n := t.Node
	ironic, err := toldOf(n)
	if err != nil {
		return nil, err
	}
	user := cmp.Or(n.DriverString(fieldUser), defaultUser)
	image := ironic["image"].(map[string]any)
	image["url"], image["checksum"], image["disk_format"], image["validate_certs"] = served.URLs[0], served.HashAlgo+":"+served.HashValue, served.Format, "yes"
	image["os_hash_algo"], image["os_hash_value"] = served.HashAlgo, served.HashValue
	// A deploy may have begun before a rackd looked at this.
	if err := cmp.Or(plainPython(n), plain(n, ironic, user, n.DriverString(fieldInterpreter))); err != nil {
		return nil, err
	}
	ironic["nodes"] = []any{map[string]any{"name": n.UUID, "ip": to.host, "user": user, "extra": map[string]any{}}}
	drive, err := t.ConfigDrive(ctx)
	if err != nil {
		return nil, fmt.Errorf("node %s: get the config drive: %w", n.Label(), err)
	}
	if drive != "" {
		file := filepath.Join(dir, "configdrive")
		if err := os.WriteFile(file, []byte(drive), 0o600); err != nil {
			return nil, err
		}
		ironic["configdrive"] = map[string]any{"type": "file", "location": file}
	}
	variables := map[string]any{"ironic": ironic}
	machine := map[string]any{"ansible_host": to.host, "ansible_port": to.port, "ansible_user": user, "ironic_extra": map[string]any{}}
	if python := n.DriverString(fieldInterpreter); python != "" {
		machine["ansible_python_interpreter"] = python // of the machine alone: a variable of the run would be started on rackd's host too
	}
	// The names of Ironic's inventory, and the machine, which Ironic's playbooks add themselves.
	inventory := map[string]any{
		"conductor": map[string]any{"hosts": map[string]any{"conductor": map[string]any{"ansible_connection": "local"}}},
		"ironic":    map[string]any{"hosts": map[string]any{n.UUID: machine}},
	}
	// Else Ansible would read the one of rackd's host or user.
	if err := os.WriteFile(filepath.Join(dir, emptyConfig), nil, 0o600); err != nil {
		return nil, err
	}
	for name, content := range map[string]any{"variables.json": variables, "inventory.json": inventory} {
		raw, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			return nil, err
		}
	}
	return []string{"-i", filepath.Join(dir, "inventory.json"), "-e", "@" + filepath.Join(dir, "variables.json")}, nil
}
