package idrac

import (
	"context"
	"net/http"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Vendor is the vendor interface of the names of WS-Man: Redfish's methods, and those that Ironic had by WS-Man. What reads is read by
// Redfish. What changed the BIOS in three calls is refused, for a step of the BIOS interface does it and reads it back.
type Vendor struct{ redfish.Vendor }

// biosInCalls are the methods that are refused.
var biosInCalls = map[string]string{"set_bios_config": http.MethodPost, "commit_bios_config": http.MethodPost, "abandon_bios_config": http.MethodDelete}

// VendorMethods lists the methods.
func (v Vendor) VendorMethods() []driver.VendorMethod {
	reads := func(name, description string, call func(context.Context, *node.Document) (any, error)) driver.VendorMethod {
		return driver.VendorMethod{Method: driver.Method{Name: name, HTTPMethods: []string{http.MethodGet}, Description: description}, Shared: true,
			Check: func(_ *node.Document, args map[string]any) error {
				for arg := range args {
					return driver.Refuse("unknown argument %.40q: %s takes none", arg, name)
				}
				return nil
			},
			Call: func(ctx context.Context, _ driver.Fence, n *node.Document, _ map[string]any) (any, error) {
				return call(ctx, n)
			}}
	}
	list := append(v.Vendor.VendorMethods(),
		reads("get_bios_config", "Show the BIOS settings of the node by their names.", v.biosConfig),
		reads("list_unfinished_jobs", "List the jobs of the iDRAC's queue that have not ended, under unfinished_jobs.", v.unfinishedJobs))
	for name, verb := range biosInCalls {
		refuse := func(*node.Document, map[string]any) error {
			return driver.Refuse("%s is not called: it changed the BIOS in several calls, and read nothing back. "+
				"The step bios.apply_configuration sets, commits and reads back; management.clear_job_queue takes jobs back", name)
		}
		list = append(list, driver.VendorMethod{Method: driver.Method{Name: name, HTTPMethods: []string{verb}, Description: "Refused: bios.apply_configuration does it."}, Check: refuse,
			Call: func(_ context.Context, _ driver.Fence, n *node.Document, args map[string]any) (any, error) {
				return nil, refuse(n, args)
			}})
	}
	return list
}

// biosConfig is the settings, each with what Ironic showed of it and Redfish tells.
func (v Vendor) biosConfig(ctx context.Context, n *node.Document) (any, error) {
	list, err := redfish.BIOS{Driver: v.Driver}.Settings(ctx, n)
	if err != nil {
		return nil, err
	}
	shown := map[string]any{}
	for _, s := range list {
		shown[s.Name] = biosAttribute(s)
	}
	return shown, nil
}

// biosAttribute is one setting in the words of Ironic's WS-Man driver.
func biosAttribute(s hardware.Setting) map[string]any {
	a := map[string]any{"name": s.Name, "current_value": s.Value}
	for name, told := range map[string]*int64{"lower_bound": s.Lower, "upper_bound": s.Upper, "min_length": s.MinLength, "max_length": s.MaxLength} {
		if told != nil {
			a[name] = *told
		}
	}
	if s.ReadOnly != nil {
		a["read_only"] = *s.ReadOnly
	}
	if len(s.Allowed) > 0 {
		a["possible_values"] = s.Allowed
	}
	return a
}

// unfinishedJobs are the queue's jobs that have not ended.
func (v Vendor) unfinishedJobs(ctx context.Context, n *node.Document) (any, error) {
	var left []job
	err := v.Turn(ctx, nil, n, "list the unfinished jobs", func(turn *redfish.Turn) error {
		k, err := managerOf(turn)
		if err == nil {
			left, err = openJobs(turn, k)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, j := range left {
		list = append(list, map[string]any{"id": told(n, j.ID), "name": told(n, j.Name), "status": told(n, j.JobState), "message": told(n, j.Message),
			"start_time": told(n, j.StartTime), "until_time": told(n, j.EndTime), "percent_complete": percent(j.PercentComplete)})
	}
	return map[string]any{"unfinished_jobs": list}, nil
}

// percent is a number that an iDRAC tells; anything else is none.
func percent(v any) any {
	if n, is := v.(float64); is {
		return n
	}
	return nil
}
