package view

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// A config drive that the site has lost is told to central at once, and is read as soon as it is there again.
func TestLostConfigDriveIsTold(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *bus.Site) error{
		"the store is purged": func(t *testing.T, s *bus.Site) error {
			stream, err := s.JS.Stream(t.Context(), "OBJ_"+bus.ConfigDrives)
			if err != nil {
				return err
			}
			return stream.Purge(t.Context())
		},
		"the store is gone": func(t *testing.T, s *bus.Site) error { return s.JS.DeleteObjectStore(t.Context(), bus.ConfigDrives) },
		"the drive is gone": func(t *testing.T, s *bus.Site) error { return s.Drives.Delete(t.Context(), "drive") },
	} {
		t.Run(name, func(t *testing.T) {
			s := bustest.Open(t)
			v := &View{site: s}
			if _, err := s.Announce(t.Context(), bus.Member{Group: "g", Name: "r", Instance: "i"}, 0); err != nil {
				t.Fatal(err)
			}
			beats, err := s.Beats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Drives.PutString(t.Context(), "drive", "sealed"); err != nil {
				t.Fatal(err)
			}
			if err := lose(t, s); err != nil {
				t.Fatal(err)
			}
			if _, err := v.ConfigDrive(t.Context(), "drive"); !errors.Is(err, ErrDriveLost) || !strings.Contains(err.Error(), "config drive drive") {
				t.Fatalf("the drive is lost, and its reader is told %v", err)
			}
			for limit, told := time.After(10*time.Second), false; !told; {
				select {
				case b := <-beats:
					told = b.Lost && b.Key == bus.MemberKey("g", "r")
				case <-limit:
					t.Fatal("central is not told")
				}
			}
			// As central does: the store is opened again, and the drive put.
			again, err := bus.Open(t.Context(), s.Conn, "", bus.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := again.Drives.PutString(t.Context(), "drive", "sealed again"); err != nil {
				t.Fatal(err)
			}
			if text, err := v.ConfigDrive(t.Context(), "drive"); err != nil || text != "sealed again" {
				t.Errorf("written again, the drive reads %q, %v", text, err)
			}
		})
	}
}
