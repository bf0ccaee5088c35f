package ask

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
)

// Indicator is a light of a machine, with its state where one is told or asked for.
type Indicator struct {
	Component string `json:"component"`
	Name      string `json:"name"`
	State     string `json:"state,omitempty"`
}

// VendorMethod describes a method of a vendor interface, as the API shows it.
type VendorMethod struct {
	HTTPMethods []string `json:"http_methods"`
	Async       bool     `json:"async"`
	Description string   `json:"description"`
	Attach      bool     `json:"attach"`
	// Exclusive is nil for methods of a hardware type, which concern no node.
	Exclusive *bool `json:"require_exclusive_lock,omitempty"`
}

// VendorCall calls a method of a vendor interface.
type VendorCall struct {
	Method     string         `json:"method"`
	HTTPMethod string         `json:"http_method"`
	Data       map[string]any `json:"data,omitempty"`
}

// InDoubt says that nobody knows whether the call was done: its answer is 504 then, for
// clients repeat by themselves what is answered with 503.
func (c VendorCall) InDoubt(cause error) *Error {
	return &Error{Status: http.StatusGatewayTimeout, Message: fmt.Sprintf("Whether the vendor method %s was done is not known: look at the machine before you call it again. Cause: %v", c.Method, cause)}
}

// VendorReply is what came of a call.
type VendorReply struct {
	// Async: the client does not wait for the end. Work: nothing was done yet; the call
	// is to become a piece of work.
	Async bool `json:"async"`
	Work  bool `json:"work,omitempty"`
	// Exclusive: nothing else was done to the node meanwhile.
	Exclusive bool            `json:"exclusive,omitempty"`
	Attach    bool            `json:"attach,omitempty"`
	Return    json.RawMessage `json:"return,omitempty"`
}

// BootScript says which machine wants its boot script: Address is a MAC, and empty when
// the machine names itself by the node's UUID. From is the address that asked central.
type BootScript struct {
	Address string     `json:"address,omitempty"`
	From    netip.Addr `json:"from,omitzero"`
}
