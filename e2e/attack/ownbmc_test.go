package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// victimSerial is what a BMC tells of its machine, to those who may log in.
const victimSerial = "serial-of-the-victim"

// A project enrols nodes that name the BMC of another's node, without its password. rackd has a session there, knows its key, and reads its
// power and events. Through its nodes the project reads nothing of that, and changes nothing. It holds the other node up for no more time
// than logins take.
func TestProjectEnrolsAnothersBMC(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	b := y.drivenBMC(t, 9445)
	b.Do(func() {
		b.At[redfishtest.System]["SerialNumber"], b.At[redfishtest.System]["SKU"] = victimSerial, victimSerial
	})
	victim := y.driven(ctx, t, b, "victim", nil)
	works := func(ctx context.Context) error {
		return y.operator.ask(ctx, "GET", "/v1/nodes/"+victim+"/management/boot_device", nil, nil)
	}
	if err := until(ctx, time.Minute, works); err != nil {
		t.Fatal(err)
	}
	thief := y.operator.as(y.token("owners", "tenant-thief"))
	written := len(b.Written())
	info := func(more map[string]any) map[string]any {
		all := map[string]any{"redfish_address": "https://" + b.address, "redfish_verify_ca": "pin"}
		for k, v := range more {
			if all[k] = v; v == nil {
				delete(all, k)
			}
		}
		return all
	}
	var reached []string
	var nodes []string
	for name, driverInfo := range map[string]map[string]any{
		"no account":            info(nil),
		"a guess":               info(map[string]any{"redfish_username": redfishtest.User, "redfish_password": "guess"}),
		"no password":           info(map[string]any{"redfish_username": redfishtest.User}),
		"an empty password":     info(map[string]any{"redfish_username": redfishtest.User, "redfish_password": ""}),
		"the mask":              info(map[string]any{"redfish_username": redfishtest.User, "redfish_password": "******"}),
		"a sealed word":         info(map[string]any{"redfish_username": redfishtest.User, "redfish_password": "sealed:v2:withheld"}),
		"unchecked":             info(map[string]any{"redfish_verify_ca": "false"}),
		"sessions":              info(map[string]any{"redfish_auth_type": "session"}),
		"an address in letters": info(map[string]any{"redfish_address": "HTTPS://" + b.address + "/"}),
		"a system":              info(map[string]any{"redfish_system_id": redfishtest.System}),
	} {
		var n node
		err := thief.persist(ctx, "POST", "/v1/nodes", map[string]any{"name": "of-a-thief-" + strings.ReplaceAll(name, " ", "-"), "driver": "redfish", "conductor_group": groupB, "driver_info": driverInfo}, &n)
		if err != nil { // a project names no conductor group
			err = thief.persist(ctx, "POST", "/v1/nodes", map[string]any{"name": "of-a-thief-" + strings.ReplaceAll(name, " ", "-"), "driver": "redfish", "driver_info": driverInfo}, &n)
			if err == nil {
				err = y.operator.set(ctx, n.UUID, "/conductor_group", groupB) // as an operator who lets them in
			}
		}
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		nodes = append(nodes, n.UUID)
		if err := thief.provision(ctx, n.UUID, "manage", nil); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		var end node
		if err := until(ctx, time.Minute, func(ctx context.Context) (err error) {
			if end, err = y.operator.node(ctx, n.UUID); err == nil && end.Target != "" {
				err = errNotYet
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %s, %.200s", name, end.State, end.LastError)
		if end.State != "enroll" || end.Power != "" {
			reached = append(reached, fmt.Sprintf("%s: %s, %s", name, end.State, end.Power))
		}
	}
	if len(nodes) == 0 {
		t.Fatal("a project enrols no node at all")
	}
	asks := []struct {
		method, path string
		body         any
	}{{"GET", "/management/boot_device", nil}, {"GET", "/management/boot_device/supported", nil}, {"GET", "/management/indicators", nil}, {"GET", "/vmedia", nil}, {"GET", "/bios", nil}, {"GET", "/firmware", nil},
		{"GET", "/states", nil}, {"GET", "/states/console", nil}, {"GET", "/history?detail=true", nil}, {"GET", "/validate", nil}, {"GET", "", nil}, {"GET", "/inventory", nil},
		{"PUT", "/states/power", map[string]any{"target": "power on"}}, {"PUT", "/management/boot_device", map[string]any{"boot_device": "pxe"}}, {"PUT", "/management/inject_nmi", map[string]any{}},
		{"POST", "/vmedia", map[string]any{"device_type": "cdrom", "image_url": "http://" + addresses["stranger"] + "/x.iso"}}, {"PUT", "/states/console", map[string]any{"enabled": true}},
		{"POST", "/vendor_passthru?method=eject_vmedia", map[string]any{}}}
	flood, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	var mu sync.Mutex
	asked := 0
	var all sync.WaitGroup
	for _, id := range nodes {
		for range 4 {
			all.Go(func() {
				for flood.Err() == nil {
					for _, a := range asks {
						_, text, err := thief.do(flood, a.method, "/v1/nodes/"+id+a.path, a.body)
						mu.Lock()
						asked++
						if err == nil && strings.Contains(text, victimSerial) {
							reached = append(reached, a.method+" "+a.path)
						}
						mu.Unlock()
					}
				}
			})
		}
	}
	good, slowest := served(ctx, 10, func(ctx context.Context) (int, error) {
		if err := works(ctx); err != nil {
			return 0, err
		}
		return http.StatusOK, nil
	})
	stop()
	all.Wait()
	slices.Sort(reached)
	reached = slices.Compact(reached)
	judge(t, line{9, tenant, fmt.Sprintf("%d nodes with the BMC of another's node, %d requests", len(nodes), asked), fmt.Sprintf("%q, %q written", reached, b.Written()[written:]), "nothing",
		len(reached) > 0 || len(b.Written()) > written || asked < len(asks)})
	judge(t, line{9, tenant, "hold up the other node meanwhile", fmt.Sprintf("%d of its 10 requests served, slowest %.1f s", good, slowest.Seconds()), "10 of 10", good < 10})
	if err := until(ctx, time.Minute, works); err != nil {
		t.Error(errors.New("the other node does not work any more"), err)
	}
}
