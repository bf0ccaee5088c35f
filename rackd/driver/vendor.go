package driver

import (
	"context"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
)

// Vendor offers methods that are in no other contract: Ironic's vendor passthru.
type Vendor interface {
	StepSource
	// VendorMethods are called on a node, DriverMethods on the hardware type.
	VendorMethods() []VendorMethod
	DriverMethods() []DriverMethod
}

// Method describes a method to those who may call it.
type Method struct {
	Name        string
	HTTPMethods []string
	Description string
	// Async: the caller does not wait for the end, which shows on the node.
	Async bool
	// Attach: the result is sent as it is, not as JSON.
	Attach bool
}

// VendorMethod is a method of a node.
type VendorMethod struct {
	Method
	// Shared: it may be called while others work on the node, so it must not write to
	// the machine.
	Shared bool
	// Check refuses arguments, wrapping ErrInvalid; nil: all are fine.
	Check func(n *node.Document, args map[string]any) error
	// Call does it and returns what goes to the caller: something that JSON can show, or
	// nil. An asynchronous one is repeated after a takeover unless Once says otherwise.
	Call func(ctx context.Context, f Fence, n *node.Document, args map[string]any) (any, error)
	// Once: it must not be repeated when nobody knows whether it was done.
	Once bool
}

// DriverMethod is a method of a hardware type. It concerns no machine.
type DriverMethod struct {
	Method
	Call func(ctx context.Context, args map[string]any) (any, error)
}

// Allows refuses an HTTP method that m does not have.
func (m Method) Allows(httpMethod string) error {
	if !slices.Contains(m.HTTPMethods, httpMethod) {
		return Refuse("The method %s does not support HTTP %s", m.Name, httpMethod)
	}
	return nil
}

// VendorMethod finds a method of the node's vendor interface and checks a call of it.
func (h *Hardware) VendorMethod(n *node.Document, name, httpMethod string, args map[string]any) (VendorMethod, error) {
	v := h.Vendor()
	if v == nil {
		return VendorMethod{}, Unsupported(n, "vendor", "vendor")
	}
	methods := v.VendorMethods()
	i := slices.IndexFunc(methods, func(m VendorMethod) bool { return m.Name == name })
	if i < 0 {
		if len(methods) == 0 {
			return VendorMethod{}, Unsupported(n, "vendor", "vendor")
		}
		return VendorMethod{}, Refuse("No handler for method %s", name)
	}
	m := methods[i]
	if err := m.Allows(httpMethod); err != nil {
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
