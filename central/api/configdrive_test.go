package api

import (
	"context"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// TestConfigDriveInInstanceInfo holds that a config drive that is written into instance_info
// is hidden and sealed, survives other changes, and goes when it is removed.
func TestConfigDriveInInstanceInfo(t *testing.T) {
	b := newBench(t)
	const n = "/v1/nodes/n1"
	kept := func() string {
		t.Helper()
		list, err := b.store.ConfigDrives(context.Background(), "", 10)
		if err != nil || len(list) > 1 {
			t.Fatalf("kept drives %+v, %v", list, err)
		}
		if len(list) == 0 {
			return ""
		}
		if strings.Contains(list[0].Drive, "user_data") || strings.Contains(list[0].Drive, "QUJD") {
			t.Errorf("the drive lies open: %s", list[0].Drive)
		}
		plain, err := b.server.Key.Open(seal.Label{Kind: seal.StoredDrive, Of: list[0].Node}, list[0].Drive)
		if err != nil {
			t.Fatal(err)
		}
		return plain
	}
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+nodeID+`","name":"n1","driver":"fake-hardware","instance_info":{"configdrive":"QUJD","a":1}}`)
	for _, c := range []struct {
		status             int
		body, shown, drive string
	}{
		{200, `[{"op":"add","path":"/instance_info/b","value":2}]`, store.DriveKept, "QUJD"},
		{200, `[{"op":"replace","path":"/instance_info","value":{"configdrive":"******"}}]`, store.DriveKept, "QUJD"},
		{200, `[{"op":"replace","path":"/instance_info/configdrive","value":{"user_data":"x"}}]`, store.DriveKept, `{"user_data":"x"}`},
		{200, `[{"op":"remove","path":"/instance_info/configdrive"}]`, "", ""},
		{400, `[{"op":"add","path":"/instance_info/configdrive","value":"******"}]`, "", ""},
		{200, `[{"op":"add","path":"/instance_info/configdrive","value":"http://x/y"}]`, store.DriveKept, "http://x/y"},
		{200, `[{"op":"remove","path":"/instance_info"}]`, "", ""},
	} {
		b.want(c.status, "PATCH", n, "1.115", c.body)
		info, _ := b.want(200, "GET", n, "1.115", "").object(t)["instance_info"].(map[string]any)
		if shown, _ := info["configdrive"].(string); shown != c.shown || kept() != c.drive {
			t.Errorf("%s: shown %q and kept %q, want %q and %q", c.body, shown, kept(), c.shown, c.drive)
		}
	}
	b.want(200, "PATCH", n, "1.115", `[{"op":"add","path":"/instance_info/configdrive","value":"QUJD"}]`)
	b.want(204, "DELETE", n, "1.115", "")
	if left := kept(); left != "" {
		t.Errorf("the deleted node left %q", left)
	}
}
