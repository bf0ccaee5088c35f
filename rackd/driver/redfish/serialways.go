package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
)

// way is a way to a machine's serial console: a WebSocket at a path of the BMC, or SSH.
type way struct {
	path string // of the WebSocket; empty: by SSH
	// guessed: the firmware is known for the path, and its resources do not tell of it. It may have been built without.
	guessed bool
	port    int // of SSH
	// shared: SSH leads to the BMC's command line, where command enters the console.
	shared  bool
	command string
}

// service is one of the services of a SerialConsole (DSP0268, ComputerSystem 1.13 and 1.22).
type service struct {
	ServiceEnabled       *bool
	Port                 int
	SharedWithManagerCLI bool
	ConsoleEntryCommand  string
	// Of a WebSocket.
	ConsoleURI  string
	Interactive *bool
}

// on reports whether the BMC offers the service. What is told of without a switch is on.
func (s *service) on() bool { return s != nil && (s.ServiceEnabled == nil || *s.ServiceEnabled) }

// waysTo are the ways to a system's serial console that rackd takes, the best first. An error says what there is instead.
func waysTo(c *gofish.APIClient, s *System) (ways []way, err error) {
	var system struct {
		SerialConsole struct{ SSH, Telnet, IPMI, WebSocket *service }
	}
	if err := json.Unmarshal(s.raw, &system); err != nil {
		return nil, fmt.Errorf("its system cannot be read: %w", err)
	}
	has := system.SerialConsole
	// A WebSocket needs no other login, and no key of the host.
	if w := has.WebSocket; w.on() && ownPath(w.ConsoleURI) && (w.Interactive == nil || *w.Interactive) {
		ways = append(ways, way{path: w.ConsoleURI})
	}
	m, err := managerOf(c, s)
	if err != nil {
		return nil, err
	}
	var another error // why a path that is known is not taken
	for _, known := range webConsoles {
		if strings.ToLower(m.Model) != known.model || len(ways) > 0 {
			continue
		}
		switch another = m.sole(c, s, known.path); {
		case another == nil:
			ways = append(ways, way{path: known.path, guessed: true})
		case !errors.Is(another, driver.ErrUnsupported):
			return nil, another
		}
	}
	if has.SSH.on() {
		ways = append(ways, way{port: has.SSH.Port, shared: has.SSH.SharedWithManagerCLI || has.SSH.ConsoleEntryCommand != "", command: has.SSH.ConsoleEntryCommand})
	}
	byManager, err := m.serialWay(c, s)
	if err != nil {
		return nil, err
	}
	if byManager != nil && !slices.ContainsFunc(ways, func(w way) bool { return w.path == "" }) {
		ways = append(ways, *byManager)
	}
	if len(ways) > 0 {
		return ways, nil
	}
	by := func(name string) bool { return slices.Contains(m.SerialConsole.ConnectTypesSupported, name) }
	switch {
	case another != nil:
		return nil, another
	case has.IPMI.on() || by("IPMI"):
		return nil, fmt.Errorf("it gives its serial console by IPMI alone: enrol the machine with driver ipmi, whose console_interface ipmitool-socat carries it: %w", driver.ErrUnsupported)
	case has.Telnet.on() || by("Telnet"):
		return nil, fmt.Errorf("it gives its serial console by Telnet alone, which would send the password in the clear: switch SSH on: %w", driver.ErrUnsupported)
	case has.SSH != nil:
		return nil, fmt.Errorf("its serial console by SSH is switched off: switch it on at the BMC: %w", driver.ErrUnsupported)
	}
	return nil, fmt.Errorf("it tells of no serial console: %w", driver.ErrUnsupported)
}

// ownPath reports whether a URI is a path of the BMC itself. Another host would get the credentials.
func ownPath(uri string) bool {
	return strings.HasPrefix(uri, "/") && !strings.HasPrefix(uri, "//") && !strings.ContainsAny(uri, "\\ \r\n\t#")
}

// serialWay is the way by SSH of a manager's own SerialConsole, which leads to its command line; nil for none.
func (m manager) serialWay(c *gofish.APIClient, s *System) (*way, error) {
	on := m.SerialConsole.ServiceEnabled
	if on != nil && !*on || !slices.Contains(m.SerialConsole.ConnectTypesSupported, "SSH") {
		return nil, nil
	}
	w := way{shared: true}
	for _, known := range entryCommands {
		if slices.ContainsFunc(known.vendors, makerOf(c, s).is) {
			w.command = known.command
		}
	}
	if m.NetworkProtocol.Path == "" {
		return &w, nil
	}
	var protocols struct {
		SSH struct {
			ProtocolEnabled *bool
			Port            int
		}
	}
	err := fetch(c, m.NetworkProtocol.Path, &protocols)
	switch {
	case status(err) == http.StatusNotFound:
		return &w, nil
	case err != nil:
		return nil, err
	case protocols.SSH.ProtocolEnabled != nil && !*protocols.SSH.ProtocolEnabled:
		return nil, nil
	}
	w.port = protocols.SSH.Port
	return &w, nil
}
