package ramdisk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"testing"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/iscsi"
)

// The disk is exported by a foreign target, for one initiator that shows its secret. What was written to it is what the disk holds, and the
// target is gone afterwards.
func TestExport(t *testing.T) {
	if _, err := exec.LookPath("tgtd"); err != nil {
		t.Skip("NOT RUN: needs tgtd, of Debian's package tgt")
	}
	j := journal.New(0)
	r := &run{Agent: &Agent{Machine: "m", Listen: netip.MustParseAddrPort("127.0.0.1:1"), Disk: disk.New("m", j), Journal: j, Pace: pace.New(pace.Timings{}, 1, 1), Scratch: t.TempDir(), Faults: &fault.Faults{},
		Inventory: agentapi.Inventory{Disks: []agentapi.Disk{{Name: "/dev/vda", Size: 64 << 20}}}}}
	image := bytes.Repeat([]byte("an image  "), 4096)
	sum := sha256.Sum256(image)
	by := disk.By{Work: "w"}
	call := func(params any) command.Call {
		raw, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		return command.Call{ID: "w/iscsi", Params: raw}
	}
	p := agentapi.StartISCSIParams{IQN: "iqn.2026-11.org.example:m", WipeDiskMetadata: true, Image: agentapi.ImageInfo{HashValue: hex.EncodeToString(sum[:])},
		Initiator: "iqn.2026-11.org.example:rackd", User: "u", Secret: "secret-of-rackd", TargetUser: "t", TargetSecret: "secret-of-agent"}
	var got agentapi.StartISCSIResult
	for range 2 { // another rackd takes the place of the first, and begins again
		result, err := r.startISCSI(t.Context(), by, call(p))
		if err != nil {
			t.Fatal(err)
		}
		got = result.(agentapi.StartISCSIResult)
	}
	defer r.abandon(true)
	target := iscsi.Target{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(got.Port)), IQN: got.IQN, LUN: got.LUN, Initiator: p.Initiator,
		CHAP: iscsi.CHAP{User: p.User, Secret: p.Secret, TargetUser: p.TargetUser, TargetSecret: p.TargetSecret}}
	stranger := target
	stranger.CHAP.Secret = "another-secret"
	if s, err := iscsi.Connect(t.Context(), stranger, iscsi.Options{}); err == nil {
		s.Close()
		t.Error("a wrong secret is let in")
	}
	s, err := iscsi.Connect(t.Context(), target, iscsi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Disk(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	written, err := d.Write(image, 0)
	if err == nil {
		err = written.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := r.finishISCSI(t.Context(), by, call(agentapi.FinishISCSIParams{Disk: "another"})); !errors.As(err, new(*deploy.GoneError)) {
		t.Errorf("a disk that was not exported: %v", err)
	}
	if _, err := r.finishISCSI(t.Context(), by, call(agentapi.FinishISCSIParams{Disk: got.Disk, ImageBytes: int64(len(image))})); err != nil {
		t.Fatal(err)
	}
	if content, is := r.Disk.Holds(); content != disk.Image || is != p.Image.HashValue {
		t.Errorf("the disk holds %s %s", content, is)
	}
	if s, err := iscsi.Connect(t.Context(), target, iscsi.Options{}); err == nil {
		s.Close()
		t.Error("the target is still there")
	}
	var kinds []journal.Kind
	for _, record := range j.After(0, 0) {
		kinds = append(kinds, record.Kind)
	}
	if len(kinds) != 2 || kinds[0] != journal.WriteBegun || kinds[1] != journal.WriteEnded {
		t.Errorf("the journal says %v", kinds)
	}
}

// A target that dies while an image is written to it ends the session. The next export shows the same disk with what was written.
func TestTargetDies(t *testing.T) {
	if _, err := exec.LookPath("tgtd"); err != nil {
		t.Skip("NOT RUN: needs tgtd, of Debian's package tgt")
	}
	j := journal.New(0)
	r := &run{Agent: &Agent{Machine: "m", Listen: netip.MustParseAddrPort("127.0.0.1:1"), Disk: disk.New("m", j), Journal: j, Pace: pace.New(pace.Timings{}, 1, 1), Scratch: t.TempDir(), Faults: &fault.Faults{},
		Inventory: agentapi.Inventory{Disks: []agentapi.Disk{{Name: "/dev/vda", Size: 64 << 20}}}}}
	r.Faults.KillTargets(1)
	p := agentapi.StartISCSIParams{IQN: "iqn.2026-11.org.example:m", WipeDiskMetadata: true, ImageBytes: 2 << 20, Image: agentapi.ImageInfo{HashValue: "0"},
		Initiator: "iqn.2026-11.org.example:rackd", User: "u", Secret: "secret-of-rackd", TargetUser: "t", TargetSecret: "secret-of-agent"}
	export := func() (got agentapi.StartISCSIResult, d *iscsi.Disk, s *iscsi.Session) {
		t.Helper()
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		result, err := r.startISCSI(t.Context(), disk.By{Work: "w"}, command.Call{ID: "w/iscsi", Params: raw})
		if err != nil {
			t.Fatal(err)
		}
		got = result.(agentapi.StartISCSIResult)
		if s, err = iscsi.Connect(t.Context(), iscsi.Target{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(got.Port)), IQN: got.IQN, LUN: got.LUN, Initiator: p.Initiator,
			CHAP: iscsi.CHAP{User: p.User, Secret: p.Secret, TargetUser: p.TargetUser, TargetSecret: p.TargetSecret}}, iscsi.Options{}); err != nil {
			t.Fatal(err)
		}
		if d, err = s.Disk(t.Context()); err != nil {
			t.Fatal(err)
		}
		return got, d, s
	}
	write := func(d *iscsi.Disk) error {
		written, err := d.Write(bytes.Repeat([]byte("half of an image"), 1<<16), 0)
		if err == nil {
			err = written.Wait(t.Context())
		}
		return err
	}
	before, d, s := export()
	defer r.abandon(true)
	for err := error(nil); err == nil; err = write(d) { // what it says last is that the session is over
		if t.Context().Err() != nil {
			t.Fatal("the target does not die")
		}
	}
	s.Close()
	if died := j.Counts("m")[journal.TargetDied]; died != 1 {
		t.Errorf("the journal tells of %d targets that died", died)
	}
	p.WipeDiskMetadata = false
	after, d, s := export()
	defer s.Close()
	if after.Disk != before.Disk {
		t.Errorf("the disk is %s, and was %s", after.Disk, before.Disk)
	}
	if err := write(d); err != nil {
		t.Errorf("the second target: %v", err)
	}
}
