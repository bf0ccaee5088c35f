package ansible

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// local is a playbook that does something on rackd's host, as many of operators do: it writes a log, or asks another program.
const local = `
- hosts: conductor
  gather_facts: no
  tasks:
    - command: "true"
- hosts: ironic
  gather_facts: no
  tasks:
    - local_action: {module: command, cmd: "true"}
`

// Who may write a node's driver_info says what its ramdisk starts as Python. That is started on no other host: neither a line for the
// shell of rackd's host, nor a program there.
func TestAnOwnerStartsNothingOnRackdsHost(t *testing.T) {
	for name, python := range map[string]func(j *judged, mark string) string{
		"a line for a shell": func(_ *judged, mark string) string { return "/bin/sh -c 'touch " + mark + "' #" },
		"a program": func(j *judged, mark string) string {
			path := filepath.Join(j.out, "python")
			if err := os.WriteFile(path, []byte("#!/bin/sh\ntouch "+mark+"\nexec /usr/bin/python3 \"$@\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := judge(t)
			j.playbook(local)
			mark := filepath.Join(j.out, "owned")
			j.Node.DriverInfo[fieldInterpreter] = python(j, mark)
			err := j.end(j.plays(), 5*time.Minute)
			if _, started := os.Stat(mark); started == nil {
				t.Errorf("it was started on rackd's host; the playbook ended with %v", err)
			}
			if name == "a program" && err != nil {
				t.Error(err)
			}
		})
	}
}
