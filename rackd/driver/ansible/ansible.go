// Package ansible is the deploy interface "ansible": a playbook of the operator's, which ansible-playbook runs on rackd's host, puts
// the image on the machine's disk. It works in the machine's ramdisk by SSH.
//
// It may import rackd/driver, rackd/driver/bringup, rackd/driver/direct (which boots the ramdisk, brings the image into the rack's
// cache and ends the ramdisk), rackd/driver/imagefields and protocol (filelock among it). Invariants:
//   - A machine has one playbook at a time.
//   - A playbook and all that it has started end with rackd, and when rackd loses the node.
//   - Playbooks and keys come from one folder, which rackd's operator filled.
//   - Secrets are in files that rackd's user alone may read, and in no argument. Those of a rackd that was killed go when the next one
//     starts on its host.
//   - What is told of a node has no template that Ansible would execute on rackd's host.
package ansible

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
)

// Fields of driver_info with Ironic's names.
const (
	fieldUser        = "ansible_username"
	fieldKey         = "ansible_key_file"
	fieldPath        = "ansible_playbooks_path"
	fieldPlaybook    = "ansible_deploy_playbook"
	fieldInterpreter = "ansible_python_interpreter"
)

// unused are those whose playbooks are not run, with what happens instead.
var unused = map[string]string{
	"ansible_shutdown_playbook":  "the ramdisk's agent writes out the caches and switches the machine off",
	"ansible_clean_playbook":     "the ramdisk's agent cleans",
	"ansible_clean_steps_config": "the ramdisk's agent cleans",
}

// Defaults with Ironic's values.
const (
	defaultUser     = "ansible"
	defaultPlaybook = "deploy.yaml"
)

// Settings are of all hardware types of a rackd.
type Settings struct {
	// Folder holds playbooks and keys; empty: no node can be deployed.
	Folder  string
	Bringup bringup.Settings
}

// Interface implements driver.Deploy. Safe for concurrent use.
type Interface struct {
	direct.Interface
	plays *Plays
}

// New returns the interface; agent has the steps that are the same.
func New(agent direct.Interface, plays *Plays) Interface { return Interface{agent.By(plays), plays} }

// Plays runs playbooks, for all hardware types of a rackd. Safe for concurrent use.
type Plays struct {
	set  Settings
	port int // of the ramdisks' SSH servers
	// answersWithin is how long one of them may take to take a connection.
	answersWithin time.Duration

	mu   sync.Mutex
	open map[string]*play // by work
}

// NewPlays returns what runs playbooks; nothing runs yet.
func NewPlays(s Settings) *Plays {
	return &Plays{set: s, port: 22, answersWithin: 5 * time.Second, open: map[string]*play{}}
}

// Ready says what this rackd's host lacks for the playbooks that it is given; nil: nothing, or it is given none. It takes away what
// rackds have left behind that were killed: secrets may lie there.
func (p *Plays) Ready() error {
	if p.set.Folder == "" {
		return nil
	}
	return errors.Join(p.Lacks(), sweep())
}

// Lacks says why no playbook can be run here.
func (p *Plays) Lacks() error {
	if p.set.Folder == "" {
		return errors.New("this rackd has no folder with playbooks (rackd --ansible-dir)")
	}
	if _, err := exec.LookPath(program); err != nil {
		return errors.New("the host of this rackd has no ansible-playbook: install it (Debian package ansible-core)")
	}
	return nil
}

const program = "ansible-playbook"

// Properties names the fields that are read.
func (i Interface) Properties() map[string]string {
	all := maps.Clone(i.Interface.Properties())
	maps.Copy(all, map[string]string{
		fieldUser:        "User that the ramdisk lets in by SSH, with sudo and no password. Default: ansible. Optional.",
		fieldKey:         "File with the user's private SSH key, below the folder of rackd's --ansible-dir. Default: the keys of the user that rackd runs as. Optional.",
		fieldPath:        "Folder with the playbooks, below that of rackd's --ansible-dir. Default: that folder. Optional.",
		fieldPlaybook:    "Playbook that deploys, in the folder of " + fieldPath + ". Default: deploy.yaml. Optional.",
		fieldInterpreter: "Absolute path of Python in the ramdisk. Default: Ansible looks for it. Optional.",
	})
	for field, why := range unused {
		all[field] = "Refused: " + why + "."
	}
	return all
}

// Validate looks at the fields, and at whether playbook and key are there.
func (i Interface) Validate(n *node.Document) error {
	if n.InstanceString("image_source") == "" {
		return driver.Refuse("Node %s failed to validate deploy image info. Some parameters were missing. Missing are: ['instance_info.image_source']", n.UUID)
	}
	if err := i.plays.Lacks(); err != nil {
		return fmt.Errorf("node %s: the deploy interface ansible cannot be used: %w: %w", n.Label(), err, driver.ErrInvalid)
	}
	for _, field := range slices.Sorted(maps.Keys(unused)) {
		if n.DriverString(field) != "" {
			return fmt.Errorf("node %s: driver_info %s is not read, for %s: remove it: %w", n.Label(), field, unused[field], driver.ErrInvalid)
		}
	}
	if err := plainPython(n); err != nil {
		return err
	}
	if user := n.DriverString(fieldUser); strings.HasPrefix(user, "-") || strings.ContainsAny(user, " \t\n@/") {
		return fmt.Errorf("node %s: driver_info %s is %.60q, which is no name of a user: %w", n.Label(), fieldUser, user, driver.ErrInvalid)
	}
	if _, err := i.plays.filesOf(n); err != nil {
		return err
	}
	told, err := toldOf(n)
	if err == nil {
		err = plain(n, told, n.DriverString(fieldUser), n.DriverString(fieldInterpreter))
	}
	if err != nil {
		return err
	}
	return i.Interface.Validate(n)
}

// DeploySteps are those of a direct deploy, in which the playbook writes the image. What boots is the playbook's own, as in Ironic: the
// agent, which has written nothing, is not asked to make the disk boot.
func (i Interface) DeploySteps(n *node.Document) []driver.Step {
	steps := i.Interface.DeploySteps(n)
	byHand := direct.Custom{Interface: i.Interface}.DeploySteps(n)
	for at, s := range steps {
		if s.Name != "prepare_instance_boot" {
			continue
		}
		if other := slices.IndexFunc(byHand, func(o driver.Step) bool { return o.Name == s.Name }); other >= 0 {
			steps[at] = byHand[other]
		}
	}
	return steps
}

// files are those of a node, as absolute paths.
type files struct {
	folder, playbook, key string // key may be empty
}

// filesOf finds a node's playbook and key. Errors say the same whether a file is missing or may not be named.
func (p *Plays) filesOf(n *node.Document) (f files, err error) {
	root, err := filepath.EvalSymlinks(p.set.Folder)
	if err != nil {
		return f, fmt.Errorf("node %s: the folder with playbooks (rackd --ansible-dir) cannot be used: %w", n.Label(), driver.ErrInvalid)
	}
	find := func(field, below, name string, dir bool) (string, error) {
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(below, at)
		}
		at, err := filepath.EvalSymlinks(at)
		if err == nil {
			var rest string
			if rest, err = filepath.Rel(root, at); err == nil && rest != "." && !filepath.IsLocal(rest) {
				err = os.ErrNotExist
			}
		}
		if err == nil {
			var info os.FileInfo
			if info, err = os.Stat(at); err == nil && (info.IsDir() != dir || !dir && !info.Mode().IsRegular()) {
				err = os.ErrNotExist
			}
		}
		if err != nil {
			return "", fmt.Errorf("node %s: driver_info %s: the folder of rackd's --ansible-dir has no %.100q: %w", n.Label(), field, name, driver.ErrInvalid)
		}
		return at, nil
	}
	f.folder = root
	if path := n.DriverString(fieldPath); path != "" {
		if f.folder, err = find(fieldPath, root, path, true); err != nil {
			return f, err
		}
	}
	name := n.DriverString(fieldPlaybook)
	if name == "" {
		name = defaultPlaybook
	}
	if f.playbook, err = find(fieldPlaybook, f.folder, filepath.Base(name), false); err != nil { // Ironic takes the last part, too
		return f, err
	}
	if key := n.DriverString(fieldKey); key != "" {
		f.key, err = find(fieldKey, root, key, false)
	}
	return f, err
}

// CanWrite implements direct.Writer: what the image of a whole disk may be is the playbook's to say.
func (*Plays) CanWrite(_ driver.DiskImage, partition bool) error {
	if partition {
		return errors.New("the image is a partition image, and this deploy interface writes whole disks only: use deploy_interface direct or iscsi")
	}
	return nil
}

// Seeks implements direct.Writer: a playbook loads the file as its source has it.
func (*Plays) Seeks() bool { return false }

// closing is how long Close waits for the playbooks that it has killed.
const closing = time.Second

// Close ends all playbooks. When it returns nil their files are gone: secrets may lie there.
func (p *Plays) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closing)
	defer cancel()
	p.mu.Lock()
	open := slices.Collect(maps.Values(p.open))
	p.mu.Unlock()
	for _, one := range open {
		one.kill(errors.New("rackd ends"))
	}
	for _, one := range open {
		select {
		case <-one.ended:
		case <-ctx.Done():
			return fmt.Errorf("a playbook that was killed has not ended, and its files stay in %s", one.files.dir)
		}
	}
	return nil
}
