package ansible

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// judged is a ramdisk with a real sshd, and a folder with playbooks for a real ansible-playbook.
type judged struct {
	*drivertest.Rig
	t      *testing.T
	folder string
	out    string // folder that playbooks write to
	port   int
}

func judge(t *testing.T) *judged {
	t.Setenv("TMPDIR", t.TempDir()) // what others leave there is not looked at
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs sshd and ansible-playbook (Debian's openssh-server and ansible-core); set IRONYARD_E2E=1")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	j := &judged{Rig: drivertest.NewRig(), t: t, folder: t.TempDir(), out: t.TempDir()}
	authorized, private := newKey(t)
	_, host := newKey(t)
	if err := os.WriteFile(filepath.Join(j.folder, "key"), private, 0o600); err != nil {
		t.Fatal(err)
	}
	j.port = newSSHD(t, authorized, host)
	j.Node.DriverInfo = map[string]any{fieldUser: me.Username, fieldKey: "key", fieldInterpreter: "/usr/bin/python3"}
	j.Node.InstanceInfo = map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_pull_secret": "u:s3cret",
		"root_device": map[string]any{"size": "== 8", "serial": "s== a%20b", "wwn": "0x1"}}
	return j
}

func (j *judged) playbook(text string) {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.folder, "deploy.yaml"), []byte(text), 0o644); err != nil {
		j.t.Fatal(err)
	}
}

func (j *judged) plays() *Plays {
	p := NewPlays(Settings{Folder: j.folder})
	p.port = j.port
	j.t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// run runs the step that writes the image, once, as a rackd does whose playbooks are p.
func (j *judged) run(p *Plays) (driver.Outcome, error) {
	j.t.Helper()
	i := New(direct.New(direct.Settings{}), p)
	for _, s := range i.DeploySteps(j.Node) {
		if s.Name == "write_image" {
			return s.Run(j.t.Context(), j.Task(networkboot.IPXE()))
		}
	}
	j.t.Fatal("no step write_image")
	return driver.Outcome{}, nil
}

// end runs it until it has ended, or for d.
func (j *judged) end(p *Plays, d time.Duration) error {
	j.t.Helper()
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if out, err := j.run(p); err != nil || out == driver.Done() {
			return err
		}
	}
	return errors.New("it has not ended")
}

// A playbook as Ironic's are runs in the ramdisk, with Ironic's variables, and its tasks are told.
func TestAPlaybookDeploys(t *testing.T) {
	j := judge(t)
	j.playbook(`
- hosts: conductor
  gather_facts: no
  tasks:
    - add_host: {group: added, hostname: "{{ item.name }}", ansible_host: "{{ item.ip }}", ansible_user: "{{ item.user }}"}
      with_items: "{{ ironic.nodes }}"
- hosts: ironic
  gather_facts: no
  tasks:
    - name: write the image
      copy: {dest: "` + j.out + `/disk", content: "{{ ironic.image.url }} {{ ironic.image.checksum }} {{ ironic.root_device_hints.size + 1 }} {{ ironic.root_device_hints.serial }} {{ inventory_hostname }}"}
    - name: write the config drive
      copy: {dest: "` + j.out + `/drive", src: "{{ ironic.configdrive.location }}"}
    - name: write what is known
      copy: {dest: "` + j.out + `/known", content: "{{ ironic | to_json }}"}
    - name: what the playbook sees of rackd
      local_action: {module: shell, cmd: "env >` + j.out + `/env"}
`)
	t.Setenv("SECRET_OF_RACKD", "s3cret")
	p := j.plays()
	if err := j.end(p, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(j.folder, "deploy.yaml")); err != nil {
		t.Fatal(err)
	}
	// Its rackd dies before that is saved of the step. Another one begins no playbook.
	if out, err := j.run(j.plays()); err != nil || out != driver.Done() {
		t.Errorf("another rackd: %+v, %v", out, err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(j.out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	sum := strings.Repeat("ab", 32)
	if got, want := read("disk"), "http://rack/images/sha256-"+sum+" sha256:"+sum+" 9 a b "+j.Node.UUID; got != want {
		t.Errorf("the disk has %q, want %q", got, want)
	}
	if got := read("drive"); got != "ZHJpdmU=" {
		t.Errorf("the config drive is %q", got)
	}
	if strings.Contains(read("known")+read("env"), "s3cret") {
		t.Error("the playbook knows a secret that is not for it")
	}
	if said := strings.Join(j.Phases, "\n"); !strings.Contains(said, "task: write the image") || !strings.Contains(said, "playbook ended: well") || strings.Contains(said, "0 MB/s") {
		t.Errorf("the history has\n%s", said)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "ironyard-ansible-*")); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestAPlaybookFails(t *testing.T) {
	j := judge(t)
	j.playbook("- hosts: ironic\n  gather_facts: no\n  tasks:\n    - name: look\n      fail: {msg: there is no such disk}\n")
	if err := j.end(j.plays(), 5*time.Minute); err == nil || !strings.Contains(err.Error(), "there is no such disk") || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	j = judge(t)
	j.playbook("- hosts: ironic\n  tasks: [ {nonsense: {}} ]\n")
	if err := j.end(j.plays(), 5*time.Minute); err == nil || !strings.Contains(err.Error(), "ERROR!") {
		t.Errorf("no playbook: %v", err)
	}
}

// sleeps is a playbook that says it has begun, and does not end by itself.
func (j *judged) sleeps() {
	j.playbook("- hosts: ironic\n  gather_facts: no\n  tasks:\n    - name: begin\n      shell: echo $$ >>" + j.out + "/begun; sleep 600\n")
}

// begun waits until the playbook has begun so often, and returns how often it has.
func (j *judged) begun(p *Plays, times int) {
	j.t.Helper()
	for until := time.Now().Add(5 * time.Minute); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(j.out, "begun"))
		if bytes.Count(text, []byte("\n")) >= times {
			return
		}
		if _, err := j.run(p); err != nil {
			j.t.Fatal(err)
		}
	}
	j.t.Fatalf("no playbook has begun; the history has %q", j.Phases)
}

// A rackd that has lost the node ends the playbook, with all that it has started, and its files. The next owner boots the ramdisk
// again before it begins once more.
func TestALostNodesPlaybookEnds(t *testing.T) {
	j := judge(t)
	j.sleeps()
	p := j.plays()
	j.begun(p, 1)
	one := p.of("w1")
	j.Lose()
	select {
	case <-one.ended:
	case <-time.After(time.Minute):
		t.Fatal("the playbook of a lost node runs on")
	}
	if _, err := j.run(p); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("%v", err)
	}
	if said, err := exec.Command("pgrep", "-f", one.files.dir).Output(); err == nil {
		t.Errorf("processes left: %s", said)
	}
	if _, err := os.Stat(one.files.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files are left: %v", err)
	}

	again := *j // the rig of another rackd, which has the node
	again.Rig = reowned(j.Rig)
	next := again.plays()
	again.begun(next, 2)
	if got := again.Writes("power"); len(got) != 1 || got[0] != "power power on" {
		t.Errorf("before the playbook begins once more: %q", got)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// reowned is the same machine as its next owner has it.
func reowned(r *drivertest.Rig) *drivertest.Rig {
	next := drivertest.NewRig()
	next.Node = r.Node
	_ = next.Task(networkboot.IPXE()).Record.SaveHandle(context.Background(), rawText(r.HandleText()))
	return next
}

// rawText is JSON as it is.
type rawText string

// MarshalJSON implements json.Marshaler.
func (r rawText) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// newKey is a key pair, as files of sshd have it.
func newKey(t *testing.T) (public string, private []byte) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := xssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(p))), pem.EncodeToMemory(block)
}

// newSSHD starts an sshd on loopback, and returns its port.
func newSSHD(t *testing.T, authorized string, host []byte) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"host": string(host), "authorized": authorized + "\n", "sshd_config": fmt.Sprintf(
		"Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nSubsystem sftp internal-sftp\n", port, dir, dir)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	sshd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	sshd.Stdout, sshd.Stderr = &said, &said
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sshd.Process.Kill(); _ = sshd.Wait() })
	for range 100 {
		if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			c.Close()
			return port
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("sshd does not answer: %s", said.String())
	return 0
}
