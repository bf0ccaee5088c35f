package fake

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

type vendor struct{ base }

// VendorMethods are those of Ironic's vendor interface "fake", which tests of clients
// call: each says whether the argument bar is its word.
func (v vendor) VendorMethods() []driver.VendorMethod {
	return []driver.VendorMethod{
		v.compares("second_method", "kazoo", true, false),
		v.compares("third_method_sync", "meow", false, false),
		v.compares("fourth_method_shared_lock", "woof", true, true),
		{Method: driver.Method{Name: "log_passthrough", HTTPMethods: []string{"POST"}, Async: true,
			Description: "Notes in the node's driver_internal_info that it was called."}, Once: true, Call: v.count("log_passthrough", nil)},
	}
}

// DriverMethods is empty.
func (vendor) DriverMethods() []driver.DriverMethod { return nil }

func (v vendor) compares(name, word string, async, shared bool) driver.VendorMethod {
	return driver.VendorMethod{
		Method: driver.Method{Name: name, HTTPMethods: []string{"POST"}, Async: async, Description: "Test if the value of bar is " + word},
		Shared: shared,
		Check: func(_ *node.Document, args map[string]any) error {
			if bar := args["bar"]; bar == nil || bar == "" {
				return driver.Refuse("Parameter 'bar' not passed to method '%s'.", name)
			}
			return nil
		},
		Call: v.count(name, func(args map[string]any) any { return args["bar"] == word }),
	}
}

// count makes a call that is counted and whose result is what answer says.
func (v vendor) count(name string, answer func(args map[string]any) any) func(context.Context, driver.Fence, *node.Document, map[string]any) (any, error) {
	return func(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
		err := v.change(ctx, f, n, name, func(s *state) { put(&s.Calls, name, s.Calls[name]+1) })
		if err != nil || answer == nil {
			return nil, err
		}
		return answer(args), nil
	}
}
