package iscsi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/iscsi"
)

// writerOf has this program be an initiator that writes without end: its value is the target.
const writerOf = "IRONYARD_TEST_WRITES_TO"

func TestMain(m *testing.M) {
	if to := os.Getenv(writerOf); to != "" {
		fmt.Println("ended:", writeOn(to))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The bytes that the two initiators write, and how much of the disk they do.
const (
	late  = 0xaa
	heirs = 0x55

	writtenFrom, writtenTo = 4 << 20, 60 << 20
	underWay               = 16
)

// writeOn writes to a target until it is kept from it, and returns why.
func writeOn(to string) error {
	var at iscsi.Target
	if err := json.Unmarshal([]byte(to), &at); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s, err := iscsi.Connect(ctx, at, iscsi.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	d, err := s.Disk(ctx)
	if err != nil {
		return err
	}
	piece := bytes.Repeat([]byte{late}, iscsi.Largest)
	var running []*iscsi.Pending
	for n := 0; ; n++ {
		w, err := d.Write(piece, writtenFrom+int64(n)*iscsi.Largest%(writtenTo-writtenFrom))
		if err != nil {
			return err
		}
		if running = append(running, w); len(running) < underWay {
			continue
		}
		if err := running[0].Wait(ctx); err != nil {
			return err
		}
		running = running[1:]
		if n == 4*underWay {
			fmt.Println("writes")
		}
	}
}

// A rackd sleeps in the middle of its writes, as its host may be suspended. Another one goes on, and writes the same range. The sleeper's
// writes that are on their way, and those that it goes on with when it wakes, do not reach the disk any more.
func TestWriterThatSleeps(t *testing.T) {
	m := boot(t)
	p := order(1)
	m.done(agentapi.CmdStartISCSI, p, nil)
	to, err := json.Marshal(iscsi.Target{Address: fmt.Sprintf("127.0.0.1:%d", m.Opened), IQN: p.IQN, LUN: 1, Initiator: p.Initiator,
		CHAP: iscsi.CHAP{User: p.User, Secret: p.Secret, TargetUser: p.TargetUser, TargetSecret: p.TargetSecret}})
	if err != nil {
		t.Fatal(err)
	}
	sleeper := exec.CommandContext(m.ctx, os.Args[0])
	sleeper.Env = append(os.Environ(), writerOf+"="+string(to))
	said, err := sleeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() || lines.Text() != "writes" {
		t.Fatalf("the initiator says %q", lines.Text())
	}
	if err := sleeper.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	next := order(2)
	m.done(agentapi.CmdStartISCSI, next, nil)
	s, err := m.login(next)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Disk(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	piece, half := bytes.Repeat([]byte{heirs}, iscsi.Largest), int64(writtenFrom+writtenTo)/2
	var ended string
	for off := int64(writtenFrom); off < writtenTo; off += iscsi.Largest {
		w, err := d.Write(piece, off)
		if err == nil {
			err = w.Wait(m.ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		if off == half { // it wakes while the other writes
			if err := sleeper.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if lines.Scan() {
				ended = lines.Text()
			}
			if err := sleeper.Wait(); err != nil {
				t.Errorf("the initiator ends with %v", err)
			}
		}
	}
	t.Logf("the initiator that slept: %s", ended)
	if ended == "" {
		t.Errorf("the initiator that slept was not kept from the disk (%v)", lines.Err())
	}
	if err := d.Flush(m.ctx); err != nil {
		t.Fatal(err)
	}
	disk, err := os.ReadFile(m.disk)
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(writtenFrom); off < writtenTo; off += iscsi.Largest {
		if !bytes.Equal(disk[off:off+iscsi.Largest], piece) {
			t.Errorf("the disk holds another thing at %d than its owner wrote: %d bytes of the one that slept", off, bytes.Count(disk[off:off+iscsi.Largest], []byte{late}))
		}
	}
}
