package answer

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

// callVendor calls a method. An asynchronous method becomes work, unless it may go
// beside work: then it is done at once.
func (d *Desk) callVendor(ctx context.Context, q ask.Request, n *node.Document, hw *driver.Hardware) (any, error) {
	call, err := arguments[ask.VendorCall](q)
	if err != nil {
		return nil, err
	}
	m, err := hw.VendorMethod(n, call.Method, call.HTTPMethod, call.Data)
	if err != nil {
		return nil, err
	}
	reply := ask.VendorReply{Async: m.Async, Exclusive: !m.Shared, Attach: m.Attach}
	var f driver.Fence = idleFence{d: d, n: n, shared: m.Shared}
	if !m.Shared {
		beside, done, err := d.beside(n)
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
	if err := d.begins(f, n); err != nil {
		return nil, err
	}
	result, err := m.Call(ctx, f, n, call.Data)
	if !m.Shared && (errors.Is(err, driver.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)) {
		return nil, call.InDoubt(err)
	}
	if err != nil {
		return nil, err
	}
	if err := d.remember(ctx, n, hw); err != nil {
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
func (d *Desk) answerDriver(ctx context.Context, q ask.Request) (any, error) {
	if q.Method == ask.RAIDProperties {
		impl, err := d.cfg.Hardware.Best(q.Driver, "raid")
		if err != nil {
			return nil, err
		}
		raid, _ := impl.(driver.RAID)
		if raid == nil || raid.LogicalDiskProperties() == nil {
			return nil, &driver.UnsupportedError{Driver: q.Driver, What: "raid"}
		}
		return raid.LogicalDiskProperties(), nil
	}
	impl, err := d.cfg.Hardware.Best(q.Driver, "vendor")
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
	if err := m.Allows(call.HTTPMethod); err != nil {
		return nil, err
	}
	result, err := m.Call(ctx, call.Data)
	if err != nil {
		return nil, err
	}
	return replied(ask.VendorReply{Async: m.Async, Attach: m.Attach}, result)
}
