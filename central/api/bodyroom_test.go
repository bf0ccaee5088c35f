package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// One caller leaves as much as it has to others, and what is given back is there again.
func TestBodiesLeaveRoomForOthers(t *testing.T) {
	room := newBodyRoom(100)
	if !room.take("a", 50) || room.take("a", 1) || !room.take("b", 25) || room.take("b", 1) || !room.take("c", 12) {
		t.Errorf("taken %d, by caller %v", room.taken, room.by)
	}
	for who, n := range map[string]int64{"a": 50, "b": 25, "c": 12} {
		room.give(who, n)
	}
	if room.taken != 0 || len(room.by) != 0 {
		t.Errorf("left over: %d, %v", room.taken, room.by)
	}
}

// A large config drive is kept as it would be if it were small.
func TestLargeConfigDrives(t *testing.T) {
	long := strings.Repeat("x", 32<<10)
	for body, want := range map[string]string{
		`{"meta_data": {"b":1, "a" : "` + long + `"}, "user_data":"hey"}`: "",
		`{"meta_data":{},"colour":"` + long + `"}`:                        "('colour' was unexpected)",
		`{"meta_data":"` + long + `"}`:                                    "meta_data is not of the right type",
		`{"user_data":"` + long + `","user_data":"b"}`:                    "it has 'user_data' twice",
		`{"user_data":"` + long + `\u0000"}`:                              "NUL",
		`{` + strings.Repeat(" ", 32<<10) + `}`:                           "", // which is none
	} {
		b := newBench(t)
		b.addNode()
		b.move("n1", provision.Available, provision.NoState, nil)
		a := b.do("PUT", provisionPath, "1.115", `{"target":"active","configdrive":`+body+`}`)
		if want != "" {
			if a.StatusCode != 400 || !strings.Contains(a.body, want) {
				t.Errorf("%.40s: status %d, %.300s, want %q", body, a.StatusCode, a.body, want)
			}
			continue
		}
		if a.StatusCode != 202 {
			t.Errorf("%.40s: status %d, %.300s", body, a.StatusCode, a.body)
		}
		kept := b.strings(fmt.Sprintf("SELECT drive FROM config_drives WHERE node = '%s'", nodeID))
		if (len(kept) == 1) != strings.Contains(body, "meta_data") {
			t.Errorf("%.40s: %d drives are kept", body, len(kept))
		}
	}
}
