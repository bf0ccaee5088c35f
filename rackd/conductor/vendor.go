package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

func describe(m driver.Method) ask.VendorMethod {
	return ask.VendorMethod{HTTPMethods: m.HTTPMethods, Async: m.Async, Description: m.Description, Attach: m.Attach}
}

func describeVendor(hw *driver.Hardware) map[string]ask.VendorMethod {
	out := map[string]ask.VendorMethod{}
	if v := hw.Vendor(); v != nil {
		for _, m := range v.VendorMethods() {
			d, exclusive := describe(m.Method), !m.Shared
			d.Exclusive = &exclusive
			out[m.Name] = d
		}
	}
	return out
}

// allowed refuses an HTTP method that m does not have.
func allowed(m driver.Method, httpMethod string) error {
	if !slices.Contains(m.HTTPMethods, httpMethod) {
		return driver.Refuse("The method %s does not support HTTP %s", m.Name, httpMethod)
	}
	return nil
}

// vendorMethod finds a method of the node's vendor interface and checks the call.
func vendorMethod(n *node.Document, hw *driver.Hardware, name, httpMethod string, args map[string]any) (driver.VendorMethod, error) {
	v := hw.Vendor()
	if v == nil {
		return driver.VendorMethod{}, driver.Unsupported(n, "vendor", "vendor")
	}
	methods := v.VendorMethods()
	i := slices.IndexFunc(methods, func(m driver.VendorMethod) bool { return m.Name == name })
	if i < 0 {
		if len(methods) == 0 {
			return driver.VendorMethod{}, driver.Unsupported(n, "vendor", "vendor")
		}
		return driver.VendorMethod{}, driver.Refuse("No handler for method %s", name)
	}
	m := methods[i]
	if err := allowed(m.Method, httpMethod); err != nil {
		return m, err
	}
	if err := v.Validate(n); err != nil {
		return m, err
	}
	if m.Check == nil {
		return m, nil
	}
	return m, m.Check(n, args)
}

// callVendor calls a method. One that nobody waits for becomes work, unless it may go
// beside work: then it is done at once.
func (c *Conductor) callVendor(ctx context.Context, q ask.Request, n *node.Document, hw *driver.Hardware) (any, error) {
	call, err := arguments[ask.VendorCall](q)
	if err != nil {
		return nil, err
	}
	m, err := vendorMethod(n, hw, call.Method, call.HTTPMethod, call.Data)
	if err != nil {
		return nil, err
	}
	reply := ask.VendorReply{Async: m.Async, Exclusive: !m.Shared, Attach: m.Attach}
	var f driver.Fence = idleFence{c: c, n: n, shared: m.Shared}
	if !m.Shared {
		beside, done, err := c.beside(n)
		if err != nil {
			return nil, err
		}
		defer done()
		f = beside
	}
	if m.Async && !m.Shared {
		reply.Work = true
		return reply, nil
	}
	if err := c.begins(f, n); err != nil {
		return nil, err
	}
	result, err := m.Call(ctx, f, n, call.Data)
	if !m.Shared && (errors.Is(err, driver.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)) {
		return nil, call.InDoubt(err)
	}
	if err != nil {
		return nil, err
	}
	if err := c.remember(ctx, n, hw); err != nil {
		return nil, err
	}
	return replied(reply, result)
}

// replied adds the result to a reply to who waits for it.
func replied(r ask.VendorReply, result any) (ask.VendorReply, error) {
	if result == nil || r.Async {
		return r, nil
	}
	var err error
	r.Return, err = json.Marshal(result)
	return r, err
}

// answerDriver answers what is asked about a hardware type.
func (c *Conductor) answerDriver(ctx context.Context, q ask.Request) (any, error) {
	if q.Method == ask.RAIDProperties {
		impl, err := c.cfg.Hardware.Best(q.Driver, "raid")
		if err != nil {
			return nil, err
		}
		raid, _ := impl.(driver.RAID)
		if raid == nil || raid.LogicalDiskProperties() == nil {
			return nil, &driver.UnsupportedError{Driver: q.Driver, What: "raid"}
		}
		return raid.LogicalDiskProperties(), nil
	}
	impl, err := c.cfg.Hardware.Best(q.Driver, "vendor")
	if err != nil {
		return nil, err
	}
	var methods []driver.DriverMethod
	if v, _ := impl.(driver.Vendor); v != nil {
		methods = v.DriverMethods()
	}
	if q.Method == ask.DriverVendorMethods {
		out := map[string]ask.VendorMethod{}
		for _, m := range methods {
			out[m.Name] = describe(m.Method)
		}
		return out, nil
	}
	call, err := arguments[ask.VendorCall](q)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(methods, func(m driver.DriverMethod) bool { return m.Name == call.Method })
	if i < 0 {
		return nil, driver.Refuse("No handler for method %s", call.Method)
	}
	m := methods[i]
	if err := allowed(m.Method, call.HTTPMethod); err != nil {
		return nil, err
	}
	result, err := m.Call(ctx, call.Data)
	if err != nil {
		return nil, err
	}
	return replied(ask.VendorReply{Async: m.Async, Attach: m.Attach}, result)
}
