package places

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/fleet/ramdisk"
)

// playbook writes the image by the program that simulated ramdisks have.
const playbook = `
- hosts: conductor
  gather_facts: no
  tasks:
    - add_host: {group: added, hostname: "{{ item.name }}", ansible_host: "{{ item.ip }}", ansible_user: "{{ item.user }}"}
      with_items: "{{ ironic.nodes }}"
- hosts: ironic
  gather_facts: no
  tasks:
    - name: write the image
      raw: "` + ramdisk.WriteImage + ` {{ ironic.image.url }} {{ ironic.image.checksum }}"
`

// players is how many playbooks run at once: each takes seconds of a processor.
const players = 3

// turn waits until another playbook may run, where a flow runs one. done ends that.
func (r *rig) turn(f flow) (done func()) {
	if f.interfaces["deploy"] != "ansible" {
		return func() {}
	}
	r.playing <- struct{}{}
	return func() { <-r.playing }
}

// addPlaybook makes the folder with the playbook that rackds run.
func (r *rig) addPlaybook(t *testing.T) {
	t.Helper()
	r.playbooks = filepath.Join(r.dir, "playbooks")
	if err := errors.Join(os.Mkdir(r.playbooks, 0o700), os.WriteFile(filepath.Join(r.playbooks, "deploy.yaml"), []byte(playbook), 0o600)); err != nil {
		t.Fatal(err)
	}
}
