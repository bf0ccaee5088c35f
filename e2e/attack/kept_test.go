package attack

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A deploy has a config drive, and an image at an address with a user, a password and a signature. What of that is told to those who may
// read the node, and what lies in the logs, on the bus and in the database.
func TestSecretsOfADeploy(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	e := y.enrol(ctx, t, groupB, nil)
	y.owned(ctx, t, e, "tenant-k")
	if err := y.operator.set(ctx, e.id, "/lessee", "tenant-kl"); err != nil {
		t.Fatal(err)
	}
	y.available(ctx, t, e)
	notified, heard := y.notified(ctx, t)
	y.deploy(ctx, t, e)
	if err := y.operator.awaits(ctx, e.id, "active", time.Minute); err != nil {
		t.Fatal(err)
	}
	var told []string
	for who, c := range map[string]*caller{"owner": y.operator.as(y.token("owners", "tenant-k")), "lessee": y.operator.as(y.token("owners", "tenant-kl")), "operator": y.operator} {
		for _, path := range []string{"/v1/nodes/" + e.id, "/v1/nodes/detail", "/v1/nodes?fields=instance_info,driver_info,driver_internal_info", "/v1/nodes/" + e.id + "/history?detail=true", "/v1/nodes/" + e.id + "/states",
			"/v1/nodes/" + e.id + "/validate", "/v1/audit?limit=1000", "/v1/nodes/" + e.id + "/inventory"} {
			_, text, err := c.do(ctx, "GET", path, nil)
			for _, secret := range []string{tenantSecret, imagePassword} {
				if err == nil && strings.Contains(text, secret) {
					told = append(told, fmt.Sprintf("%s %s: %.20s", who, path, secret))
				}
			}
		}
	}
	slices.Sort(told)
	judge(t, line{6, tenant, "read a deploy's config drive, or the password in its image's address", fmt.Sprintf("%q", told), "nowhere", len(told) > 0})
	stop(notified)
	lines := <-heard
	judge(t, line{6, tenant, "hear them in notifications", fmt.Sprintf("%t %t in %d bytes", strings.Contains(lines, tenantSecret), strings.Contains(lines, imagePassword), len(lines)), "false false",
		strings.Contains(lines, tenantSecret) || strings.Contains(lines, imagePassword) || !strings.Contains(lines, e.id)})

	kept := map[string][]string{}
	logs := 0
	if err := filepath.WalkDir(y.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, y.file("bin")) {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil // it has gone since
		}
		text := string(raw)
		if strings.HasSuffix(path, ".log") && strings.Contains(text, e.id) {
			logs++
		}
		for _, secret := range []string{tenantSecret, imagePassword, imageSignature} {
			if strings.Contains(text, secret) {
				kept[secret] = append(kept[secret], strings.TrimPrefix(path, y.dir))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	inLogs := func(secret string) bool {
		return slices.ContainsFunc(kept[secret], func(f string) bool { return strings.HasSuffix(f, ".log") })
	}
	judge(t, line{6, tenant, "a config drive in files of all programs", fmt.Sprintf("%q", kept[tenantSecret]), "none", len(kept[tenantSecret]) > 0})
	judge(t, line{6, tenant, "an image's password and signature in the logs", fmt.Sprintf("%t %t in %d logs that name the node", inLogs(imagePassword), inLogs(imageSignature), logs), "false false",
		inLogs(imagePassword) || inLogs(imageSignature) || logs < 2})
}
