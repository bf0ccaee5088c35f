package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// The image of a boot holds the boot's id. Its address has a code, and ends with the boot.
func TestImageOfAnotherBoot(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	whole := map[string]any{"image_source": y.imageURL(), "image_checksum": y.images.sha256, "image_disk_format": "raw"}
	b, other := y.drivenBMC(t, 9443), y.drivenBMC(t, 9444)
	more := map[string]any{"deploy_interface": "direct", "instance_info": whole}
	id, otherID := y.driven(ctx, t, b, "booted", more), y.driven(ctx, t, other, "booted-too", more)
	boot := func(id string, b *drivenBMC) (path string) {
		if err := y.operator.provision(ctx, id, "active", nil); err != nil {
			t.Fatal(err)
		}
		if err := until(ctx, time.Minute, func(ctx context.Context) error {
			n, err := y.operator.node(ctx, id)
			if at := strings.Index(b.image(cdAt), "/media/"); at >= 0 {
				path = b.image(cdAt)[at:]
			}
			if err == nil && (n.State != "wait call-back" || path == "") {
				err = fmt.Errorf("it is %s, its CD is %q, %q", n.State, b.image(cdAt), n.LastError)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path, otherPath := boot(id, b), boot(otherID, other)
	at := fmt.Sprintf("http://%s:%d", addresses["rackd-b"], webPort)
	reads := func(method, path, part string) (status, bytes int) {
		req, err := http.NewRequestWithContext(ctx, method, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path // as it is
		if part != "" {
			req.Header.Set("Range", part)
		}
		resp, err := y.stranger.web.Do(req)
		if err != nil {
			return 0, 0
		}
		defer resp.Body.Close()
		n, _ := io.Copy(io.Discard, resp.Body) // a cut one counts as what came
		return resp.StatusCode, int(n)
	}
	if status, n := reads("GET", path, "bytes=0-65535"); status != http.StatusPartialContent || n != 65536 {
		t.Fatalf("who knows the address gets %d, %d bytes", status, n)
	}
	code := func(path string) string { return strings.Split(path, "/")[3] }
	name := path[strings.LastIndexByte(path, '/')+1:]
	var let []string
	for _, try := range []string{"/media/" + id + "/" + code(otherPath) + "/" + name, "/media/" + otherID + "/" + code(path) + "/" + name, "/media/" + id + "/" + code(path) + "/configdrive.img",
		"/media/" + id + "/" + code(path) + "/parameters.img", "/media/" + id + "/" + code(path)[1:] + "/" + name, "/media/" + id + "/" + strings.ToUpper(code(path)) + "/" + name, "/media/" + id + "//" + name,
		"/media/" + id + "/" + code(path) + "%00/" + name, "/media/" + id + "/%2e%2e/" + id + "/" + code(otherPath) + "/" + name, "/media/" + strings.ToUpper(id) + "/" + code(otherPath) + "/" + name} {
		for _, method := range []string{"GET", "HEAD"} {
			for _, part := range []string{"", "bytes=0-0", "bytes=-1"} {
				if status, _ := reads(method, try, part); status/100 == 2 {
					let = append(let, method+" "+try+" "+part)
				}
			}
		}
	}
	judge(t, line{142, onTheNetwork, "read the image of a boot without its address", fmt.Sprintf("%q", let), "never", len(let) > 0})

	var told []string
	for who, c := range map[string]*caller{"its owner": y.operator.as(y.token("owners", "tenant-owner")), "its lessee": y.operator.as(y.token("owners", "tenant-lessee")), "an operator": y.operator} {
		for _, ask := range []string{"", "/vmedia", "/history?detail=true", "/states", "/inventory", "/management/boot_device", "/validate"} {
			if _, body, err := c.do(ctx, "GET", "/v1/nodes/"+id+ask, nil); err == nil && strings.Contains(body, code(path)) {
				told = append(told, who+" "+ask)
			}
		}
	}
	slices.Sort(told)
	judge(t, line{142, tenant, "learn the address of a boot's image by the API", fmt.Sprintf("%q", told), "nowhere", len(told) > 0})

	// The boot ends. Its address is closed, also in the next boot of the node.
	if err := y.operator.provision(ctx, id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.awaits(ctx, id, "available", time.Minute); err != nil {
		t.Fatal(err)
	}
	closed, _ := reads("GET", path, "bytes=0-0")
	head, _ := reads("HEAD", path, "")
	judge(t, line{142, onTheNetwork, "the address of a boot that has ended", fmt.Sprint(closed, head), "404 404", closed != 404 || head != 404})
	if err := y.operator.set(ctx, id, "/instance_info", whole); err != nil {
		t.Fatal(err)
	}
	next := boot(id, b)
	closed, _ = reads("GET", path, "bytes=0-0")
	judge(t, line{142, onTheNetwork, "that address in the next boot", fmt.Sprintf("%d, the same address %t", closed, next == path), "404", closed != 404 || next == path})
}
