package conductor

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// byInstanceMedia is a machine whose instance reads media from rackds: what the fact says, else the node's document.
type byInstanceMedia struct{ *machine }

func (*byInstanceMedia) files(n *node.Document, facts map[string]string) (files map[string]string) {
	if raw, noted := facts["instance_files"]; noted {
		_ = json.Unmarshal([]byte(raw), &files)
		return files
	}
	return n.InstanceFiles
}
func (*byInstanceMedia) ReadyInstance(context.Context, *driver.Task) error { return nil }
func (m *byInstanceMedia) InstanceMedium(n *node.Document, facts map[string]string) (bootorder.Load, bool) {
	return bootorder.Load{Instance: true, Kernel: bootorder.File{ID: m.files(n, facts)["kernel"]}}, true
}
func (m *byInstanceMedia) InstanceMedia(n *node.Document, facts map[string]string) (string, string) {
	return m.files(n, facts)[node.FileMedium], m.files(n, facts)[node.FileDrive]
}

var _ driver.InstanceMediumMaker = (*byInstanceMedia)(nil)

func (m *byInstanceMedia) DesertedInstance(*driver.Task) bool { return false }

func (m *byInstanceMedia) DriveNames(n *node.Document, facts map[string]string) (string, string) {
	return m.files(n, facts)[node.FileDriveOf], m.files(n, facts)[node.FileDriveName]
}
func (m *byInstanceMedia) KeepInstance(context.Context, *driver.Task) error {
	m.writes = append(m.writes, "keep the media")
	return nil
}

func (m *byInstanceMedia) with(t *testing.T, build func(context.Context, string, string, string) (string, error)) func(*Config) {
	return func(c *Config) {
		named := []driver.Named{{Name: "m", Impl: m}}
		reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
		if err != nil {
			t.Fatal(err)
		}
		c.Hardware, c.Media, c.BuildDrive = reg, mediaAt("http://a"), build
	}
}

// The media of an instance answer from when its BMC is told of them, at the owner, and with the checkpoint at each rackd; and by the node's
// document alone, as for a rackd that has just started. They end with the instance, and with a deploy that fails.
func TestMediaOfAnInstance(t *testing.T) {
	drive, err := configdrive.Build(t.Context(), nil, `{"user_data":"u"}`, configdrive.Defaults{UUID: "i", Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	image, err := configdrive.Image(drive)
	if err != nil {
		t.Fatal(err)
	}
	is := sha256.Sum256(image)
	sum := hex.EncodeToString(is[:])
	build := func(ctx context.Context, input, instance, name string) (string, error) {
		if input != "work-1" {
			return "", errors.New("another input: " + input)
		}
		return configdrive.Build(ctx, nil, `{"user_data":"u"}`, configdrive.Defaults{UUID: instance, Name: name})
	}
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			oneNode(s)
			m := &byInstanceMedia{&machine{power: driver.PowerOff}}
			told, goOn := make(chan string, 4), make(chan bool)
			m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Run: func(ctx context.Context, k *driver.Task) (driver.Outcome, error) {
				k.Facts[driver.FactBoot] = driver.BootInstance
				k.Facts["instance_files"] = `{"kernel":"sha256-k","medium":"` + k.WorkID + `","configdrive":"` + sum + `","configdrive_of":"i","configdrive_name":"first"}`
				k.Media.PublishInstance()
				url, err := k.Media.InstanceURL("http://a", k.WorkID, driver.InstanceBoot)
				if err != nil {
					return driver.Done(), err
				}
				told <- url
				<-goOn
				if err := k.Record.SaveHandle(ctx, "told"); err != nil {
					return driver.Done(), err
				}
				told <- "saved"
				<-goOn
				if fails {
					k.Media.WithdrawInstance()
					delete(k.Facts, driver.FactBoot)
					return driver.Done(), driver.ErrInvalid
				}
				return driver.Done(), nil
			}}}
			a, _, killA := conductorOn(t, s, "a", owned("a"), m.machine, m.with(t, build))
			defer killA()
			b, _, killB := conductorOn(t, s, "b", owned("a"), m.machine, m.with(t, build))
			defer killB()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			code := strings.TrimPrefix(<-told, "http://a/")
			driveCode := InstanceCode(testKey, nodeA, "work-1", driver.InstanceDrive)
			answers := func(when string, c *Conductor, want bool) {
				t.Helper()
				o, ok := c.Medium(nodeA, code)
				if ok != want || ok && (!o.Load.Instance || o.Load.Kernel.ID != "sha256-k" || o.BootID != "") {
					t.Errorf("%s: %t, %+v", when, ok, o)
				}
				got, open, err := c.InstanceDrive(t.Context(), nodeA, driveCode)
				if (err == nil) != want {
					t.Errorf("%s, its config drive: %v", when, err)
				} else if want {
					body, err := open()
					if err != nil || got != sum || string(body) != string(image) {
						t.Errorf("%s, its config drive: %q, %v", when, got, err)
					}
				}
				for _, wrong := range []string{"", driveCode, "x", InstanceCode(testKey, nodeA, "work-0", driver.InstanceBoot), InstanceCode(testKey, "n", "work-1", driver.InstanceBoot), base64.RawURLEncoding.EncodeToString([]byte("work-1"))} {
					if _, ok := c.Medium(nodeA, wrong); ok {
						t.Errorf("%s: the code %q opens the medium", when, wrong)
					}
				}
				if _, _, err := c.InstanceDrive(t.Context(), nodeA, code); err == nil {
					t.Errorf("%s: the code of the medium opens the config drive", when)
				}
			}
			answers("told", a, true)
			answers("told, elsewhere", b, false)
			goOn <- true
			<-told
			synctest.Wait()
			answers("with the checkpoint, elsewhere", b, true)
			goOn <- true
			time.Sleep(time.Minute)
			synctest.Wait()
			answers("at its end", a, !fails)
			answers("at its end, elsewhere", b, !fails)
			if fails {
				return
			}
			s.mu.Lock()
			ended, n := s.works[nodeA], *s.nodes[nodeA]
			delete(s.works, nodeA)
			n.State = provision.Deploying
			s.nodes[nodeA] = &n
			s.mu.Unlock()
			a.NodeChanged(nodeA)
			synctest.Wait()
			if _, ok := a.Medium(nodeA, code); !ok {
				t.Error("its work is cleared away, the node's document does not show its end, and its medium is gone")
			}
			s.mu.Lock()
			s.works[nodeA] = ended
			s.mu.Unlock()
			later := func(change func(*node.Document)) {
				s.mu.Lock()
				n := *s.nodes[nodeA]
				n.State, n.Generation = provision.Active, n.Generation+1
				n.InstanceFiles = map[string]string{"kernel": "sha256-k", node.FileMedium: "work-1", node.FileDrive: sum, node.FileDriveOf: "i", node.FileDriveName: "first"}
				change(&n)
				s.nodes[nodeA] = &n
				s.mu.Unlock()
			}
			later(func(*node.Document) {})
			answers("by the document", b, true)
			later(func(n *node.Document) { n.Name, n.InstanceUUID = "second", "another" })
			s.lose(2)
			answers("when the site has lost it", b, true)
			s.lose(1000)
			if _, open, err := b.InstanceDrive(t.Context(), nodeA, driveCode); err != nil {
				t.Error(err)
			} else if _, err := open(); !errors.Is(err, view.ErrDriveLost) {
				t.Errorf("a config drive that does not come back: %v", err)
			}
			s.lose(0)
			answers("of a node that was renamed, and is another instance's", b, true)
			later(func(n *node.Document) {
				n.Name, n.InstanceUUID = "first", "i"
				delete(n.InstanceFiles, node.FileDriveOf)
				delete(n.InstanceFiles, node.FileDriveName)
			})
			answers("of a deploy that has noted no name", b, true)
			later(func(n *node.Document) { n.InstanceFiles[node.FileDrive] = strings.Repeat("0", 64) })
			if _, open, err := b.InstanceDrive(t.Context(), nodeA, driveCode); err != nil {
				t.Error(err)
			} else if _, err := open(); err == nil || !strings.Contains(err.Error(), "another than the one") {
				t.Errorf("another config drive than the deploy's is given: %v", err)
			}
			later(func(n *node.Document) { n.InstanceFiles = nil })
			answers("without the instance", b, false)
			later(func(n *node.Document) { n.State = provision.DeployFail })
			answers("in deploy failed", b, false)
			s.mu.Lock()
			delete(s.works, nodeA)
			s.mu.Unlock()
			a.NodeChanged(nodeA)
			synctest.Wait()
			if len(a.parted) != 0 {
				t.Errorf("the work is cleared away, the node's document shows its end, and rackd keeps %v", a.parted)
			}
		})
	}
}

// Before a machine starts, its instance's media are where it finds them. One that is switched off needs none.
func TestPowerKeepsMedia(t *testing.T) {
	for target, want := range map[string][]string{
		"power on":  {"keep the media", "power power on epoch 1"},
		"rebooting": {"keep the media", "power power on epoch 1"},
		"power off": nil,
	} {
		for _, active := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				m := &byInstanceMedia{&machine{power: driver.PowerOff}}
				s.nodes[nodeA].InstanceFiles = map[string]string{node.FileMedium: "w"}
				_, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, m.with(t, nil))
				defer kill()
				state, want := provision.Active, want
				if !active {
					state, want = provision.Available, slices.DeleteFunc(slices.Clone(want), func(w string) bool { return w == "keep the media" })
				}
				s.request(nodeA, work.Power, state, work.Args{PowerTarget: target})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if !slices.Equal(m.writes, want) {
					t.Errorf("%s of an active node (%t): %q, want %q", target, active, m.writes, want)
				}
			})
		}
	}
}
