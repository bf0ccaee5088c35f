package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Vendor is the vendor interface of machines whose BMC speaks Redfish: subscriptions to
// the BMC's events, the ejection of virtual media, and the event log. All but the methods of the event log are Ironic's.
type Vendor struct{ *Driver }

// NamedSteps is the step that clears the event log.
func (v Vendor) NamedSteps(*node.Document) []driver.Step { return driver.EventLogSteps("vendor", v) }

// DriverMethods is empty.
func (Vendor) DriverMethods() []driver.DriverMethod { return nil }

// VendorMethods lists the methods.
func (v Vendor) VendorMethods() []driver.VendorMethod {
	method := func(name, verb, description string) driver.Method {
		return driver.Method{Name: name, HTTPMethods: []string{verb}, Description: description}
	}
	eject := method("eject_vmedia", http.MethodPost, "Eject what is in a virtual drive, or in all of them.")
	eject.Async = true
	return append([]driver.VendorMethod{
		{Method: eject, Check: checkEject, Call: v.eject},
		{Method: method("create_subscription", http.MethodPost, "Subscribe a URL to the events of the BMC."), Check: checkSubscription, Call: v.subscribe},
		{Method: method("delete_subscription", http.MethodDelete, "End a subscription to the events of the BMC."), Check: checkID, Call: v.unsubscribe},
		{Method: method("get_subscription", http.MethodGet, "Show a subscription to the events of the BMC."), Shared: true, Check: checkID, Call: v.subscription},
		{Method: method("get_all_subscriptions", http.MethodGet, "List the subscriptions to the events of the BMC."), Shared: true, Call: v.subscriptions},
	}, driver.EventLogMethods(v)...)
}

func invalid(n *node.Document, format string, args ...any) error {
	return fmt.Errorf("node %s: %s: %w", n.Label(), fmt.Sprintf(format, args...), driver.ErrInvalid)
}

// onlyArgs refuses arguments that are not among names.
func onlyArgs(n *node.Document, args map[string]any, names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !slices.Contains(names, name) {
			return invalid(n, "unknown argument %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

func checkEject(n *node.Document, args map[string]any) error {
	if device := args["boot_device"]; device != nil {
		if text, _ := device.(string); !slices.Contains(hardware.MediaTypes, text) {
			return invalid(n, "boot_device is not one of %v", hardware.MediaTypes)
		}
	}
	return onlyArgs(n, args, "boot_device")
}

func (v Vendor) eject(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	var types []string
	if device, given := args["boot_device"].(string); given {
		types = []string{device}
	}
	return nil, v.DetachMedia(ctx, f, n, types)
}

func checkSubscription(n *node.Document, args map[string]any) error {
	text, _ := args["Destination"].(string)
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return invalid(n, "Destination is not an http or https URL")
	}
	for _, name := range []string{"Context", "Protocol"} {
		if _, isText := args[name].(string); args[name] != nil && !isText {
			return invalid(n, "%s is not a text", name)
		}
	}
	for _, name := range []string{"EventTypes", "HttpHeaders"} {
		if _, isList := args[name].([]any); args[name] != nil && !isList {
			return invalid(n, "%s is not a list", name)
		}
	}
	return onlyArgs(n, args, "Destination", "EventTypes", "HttpHeaders", "Context", "Protocol")
}

func checkID(n *node.Document, args map[string]any) error {
	if id, _ := args["id"].(string); id == "" || strings.ContainsAny(id, "/?#") || id == ".." {
		return invalid(n, "id does not name a subscription")
	}
	return onlyArgs(n, args, "id")
}

// subscriptionsOf is the path of the BMC's subscriptions.
func subscriptionsOf(c *gofish.APIClient) (string, error) {
	events, err := eventServiceOf(c)
	if err == nil && events.Subscriptions.Path == "" {
		err = fmt.Errorf("it has no event service: %w", driver.ErrUnsupported)
	}
	return events.Subscriptions.Path, err
}

// unshown are the fields of a subscription that Ironic leaves out; headers may hold
// secrets.
var unshown = []string{"@odata.context", "HttpHeaders", "Oem", "Name", "Description"}

// get reads a resource as it is, apart from what is not shown.
func get(c *gofish.APIClient, path string) (map[string]any, error) {
	resp, err := c.Get(path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var m map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	for _, name := range unshown {
		delete(m, name)
	}
	return m, nil
}

func (v Vendor) subscribe(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	payload := map[string]any{"Protocol": "Redfish", "Context": "", "EventTypes": []any{"Alert"}}
	maps.Copy(payload, args)
	var made map[string]any
	err := v.pool.with(ctx, f, n, "subscribe to events", func(_ *session, _ account, c *gofish.APIClient) error {
		path, err := subscriptionsOf(c)
		if err != nil {
			return err
		}
		resp, err := c.Post(path, payload)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		at, err := url.Parse(resp.Header.Get("Location"))
		if err != nil || at.Path == "" {
			return errors.New("it accepted the subscription but did not say where it is: list the subscriptions")
		}
		made, err = get(c, at.Path)
		return err
	})
	return made, err
}

func (v Vendor) unsubscribe(ctx context.Context, f driver.Fence, n *node.Document, args map[string]any) (any, error) {
	return nil, v.pool.with(ctx, f, n, "end a subscription", func(_ *session, _ account, c *gofish.APIClient) error {
		path, err := subscriptionsOf(c)
		if err != nil {
			return err
		}
		resp, err := c.Delete(path + "/" + url.PathEscape(args["id"].(string)))
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
}

func (v Vendor) subscription(ctx context.Context, _ driver.Fence, n *node.Document, args map[string]any) (any, error) {
	return v.show(ctx, n, "/"+url.PathEscape(args["id"].(string)))
}

func (v Vendor) subscriptions(ctx context.Context, _ driver.Fence, n *node.Document, _ map[string]any) (any, error) {
	return v.show(ctx, n, "")
}

func (v Vendor) show(ctx context.Context, n *node.Document, below string) (any, error) {
	var found map[string]any
	err := v.pool.with(ctx, nil, n, "read subscriptions", func(_ *session, _ account, c *gofish.APIClient) error {
		path, err := subscriptionsOf(c)
		if err == nil {
			found, err = get(c, path+below)
		}
		return err
	})
	return found, err
}
