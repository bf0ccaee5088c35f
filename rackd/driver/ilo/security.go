package ilo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// What HPE's security dashboard judges. Each parameter is a setting somewhere in the iLO, and a line of the dashboard that may be ignored
// there. Names of steps and arguments are Ironic's, the rest HPE's words.

const (
	argParameters = "security_parameters"
	argLength     = "password_length"
	argThreshold  = "logging_threshold"
	argIgnore     = "ignore"
)

// Where a parameter's setting is.
const (
	inAccounts = "AccountService"
	inManager  = "Manager"
	inNetwork  = "NetworkProtocol"
	inBoot     = "SecureBoot"
)

// parameter is one of the dashboard's.
type parameter struct {
	// Name is Ironic's, and Shown what the name on the dashboard holds.
	Name, Shown string
	In, Field   string
}

var (
	parameters = []parameter{
		{"password_complexity", "Password Complexity", inAccounts, "EnforcePasswordComplexity"},
		{"require_login_for_ilo_rbsu", "Require Login", inManager, "RequiredLoginForiLORBSU"},
		{"ipmi_over_lan", "IPMI", inNetwork, "ProtocolEnabled"},
		{"secure_boot", "Secure Boot", inBoot, ""},
		{"require_host_authentication", "Host Authentication", inManager, "RequireHostAuthentication"},
	}
	minimumLength = parameter{"minimum_password_length", "Minimum", inAccounts, "MinPasswordLength"}
	failureLog    = parameter{"authentication_failure_logging", "Failure Logging", inAccounts, "AuthFailureLoggingThreshold"}
	// thresholds are those that an iLO takes: at each failure, at each second one and so on; 0 is never.
	thresholds = []int{0, 1, 2, 3, 5}
)

// longestMinimum is the greatest that an iLO takes, usualMinimum and usualThreshold Ironic's where none is asked for.
const (
	longestMinimum = 39
	usualMinimum   = 8
	usualThreshold = 1
)

// secured is a parameter as it is asked for.
type secured struct {
	parameter
	value  any
	ignore bool
}

// securitySteps are those of Ironic's iLO driver, for cleanings.
func (m Management) securitySteps(step func(string, driver.Flows, driver.StepKind, func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step) []driver.Step {
	made := func(name string, takes map[string]driver.Argument, asked func(n *node.Document, args map[string]any) ([]secured, error)) driver.Step {
		s := step(name, driver.InClean, driver.Repeatable, func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			list, err := asked(t.Node, t.Args)
			for _, p := range list {
				if err == nil {
					err = m.secure(ctx, t, p)
				}
			}
			return driver.Done(), err
		})
		s.Takes = takes
		s.Check = func(n *node.Document, args map[string]any) error {
			_, err := asked(n, unsealed(args))
			return err
		}
		return s
	}
	ignored := driver.Argument{Description: "Whether the security dashboard is to ignore this parameter. Default false."}
	return []driver.Step{
		made("security_parameters_update", map[string]driver.Argument{argParameters: {Required: true,
			Description: "The list of parameters, each with param (password_complexity, require_login_for_ilo_rbsu, ipmi_over_lan, secure_boot or require_host_authentication), enable (default true) and ignore (default false). They are set in turn."}}, parametersOf),
		made("update_minimum_password_length", map[string]driver.Argument{argIgnore: ignored,
			argLength: {Description: "The least length of passwords of the iLO, 0 to 39. Default 8."}}, numbered(minimumLength, argLength, usualMinimum, func(v int) string {
			if v < 0 || v > longestMinimum {
				return "0 to 39"
			}
			return ""
		})),
		made("update_auth_failure_logging_threshold", map[string]driver.Argument{argIgnore: ignored,
			argThreshold: {Description: "How many failed logins make an entry of the log: 1, 2, 3 or 5; 0: none do. Default 1."}}, numbered(failureLog, argThreshold, usualThreshold, func(v int) string {
			if !slices.Contains(thresholds, v) {
				return "0, 1, 2, 3, 5"
			}
			return ""
		})),
	}
}

// unsealed are the arguments that are not sealed. "password_length" is, for its name.
func unsealed(args map[string]any) map[string]any {
	open := maps.Clone(args)
	maps.DeleteFunc(open, func(_ string, v any) bool { text, is := v.(string); return is && seal.Sealed(text) })
	return open
}

// truth reads a boolean of an argument, in the words that Ironic takes.
func truth(args map[string]any, name string, otherwise bool) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(args[name]))) {
	case "<nil>", "":
		return otherwise, nil
	case "true", "t", "1", "on", "yes", "y":
		return true, nil
	case "false", "f", "0", "off", "no", "n":
		return false, nil
	}
	return false, driver.Refuse("'%s' is '%.40v': give true or false.", name, args[name])
}

// parametersOf reads the argument of security_parameters_update, and refuses it in Ironic's words.
func parametersOf(n *node.Document, args map[string]any) (list []secured, err error) {
	given, _ := args[argParameters].([]any)
	if len(given) == 0 {
		return nil, driver.Refuse("'%s' is not a list of parameters. Step 'security_parameters_update' is not executed for %s.", argParameters, n.UUID)
	}
	for _, item := range given {
		info, _ := item.(map[string]any)
		name, _ := info["param"].(string)
		if name == "" {
			return nil, driver.Refuse("Security parameter info: %.100v is missing the required 'param' field.", item)
		}
		at := slices.IndexFunc(parameters, func(p parameter) bool { return p.Name == name })
		if at < 0 {
			var names []string
			for _, p := range parameters {
				names = append(names, p.Name)
			}
			return nil, driver.Refuse("Security parameter '%.40s' is not a valid parameter. Supported values are: %s", name, strings.Join(names, ", "))
		}
		p := secured{parameter: parameters[at]}
		if p.value, err = truth(info, "enable", true); err == nil {
			p.ignore, err = truth(info, argIgnore, false)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// numbered reads the arguments of a step that sets a number. allowed returns what may be given, where v may not.
func numbered(p parameter, arg string, usual int, allowed func(v int) string) func(*node.Document, map[string]any) ([]secured, error) {
	return func(_ *node.Document, args map[string]any) (list []secured, err error) {
		v := usual
		if given := args[arg]; given != nil {
			number, is := given.(float64)
			if v = int(number); !is || float64(v) != number {
				return nil, driver.Refuse("The parameter \"%s\" value \"%.40v\" is invalid. It must be a whole number.", p.Field, given)
			}
		}
		if may := allowed(v); may != "" {
			return nil, driver.Refuse("The parameter \"%s\" value \"%d\" is invalid. Valid values are: %s", p.Field, v, may)
		}
		ignore, err := truth(args, argIgnore, false)
		return []secured{{p, float64(v), ignore}}, err
	}
}

// secure sets a parameter and whether the dashboard ignores it. What is already so is not written, and what was written is read back.
func (m Management) secure(ctx context.Context, t *driver.Task, p secured) error {
	err := m.Turn(ctx, t.Fence, t.Node, "set the security parameter "+p.Name, func(turn *redfish.Turn) error {
		line, err := dashboard(turn, p.parameter)
		if err != nil {
			return err
		}
		if err := kept(turn, line, "Ignore", p.ignore, nil); err != nil || p.In == inBoot {
			return err
		}
		at, wrap, err := p.place(turn)
		if err != nil {
			return err
		}
		return kept(turn, at, p.Field, p.value, wrap)
	})
	if err == nil && p.In == inBoot {
		on, _ := p.value.(bool)
		err = m.SetSecureBoot(ctx, t.Fence, t.Node, on)
	}
	if err == nil {
		said := fmt.Sprintf("%s is %v", p.Name, p.value)
		if p.ignore {
			said += ", and ignored by the dashboard"
		}
		t.Record.Phase("security", said)
	}
	return err
}

// dashboard is the path of a parameter's line.
func dashboard(turn *redfish.Turn, p parameter) (string, error) {
	var manager struct {
		Oem struct {
			Hpe struct {
				Links struct{ SecurityService redfish.Link }
			}
		}
	}
	if _, err := turn.Manager(&manager); err != nil {
		return "", err
	}
	none := fmt.Errorf("it has no security dashboard: %w", driver.ErrUnsupported)
	if manager.Oem.Hpe.Links.SecurityService.Path == "" {
		return "", none
	}
	var service struct {
		Links struct{ SecurityDashboard redfish.Link }
	}
	if err := turn.Read(manager.Oem.Hpe.Links.SecurityService.Path, &service); err != nil {
		return "", err
	}
	if service.Links.SecurityDashboard.Path == "" {
		return "", none
	}
	var board struct{ SecurityParameters redfish.Link }
	if err := turn.Read(service.Links.SecurityDashboard.Path, &board); err != nil {
		return "", err
	}
	if board.SecurityParameters.Path == "" {
		return "", none
	}
	var lines struct{ Members []redfish.Link }
	if err := turn.Read(board.SecurityParameters.Path, &lines); err != nil {
		return "", err
	}
	for _, l := range lines.Members {
		var line struct{ Name string }
		if err := turn.Read(l.Path, &line); err != nil {
			return "", err
		}
		if strings.Contains(line.Name, p.Shown) {
			return l.Path, nil
		}
	}
	return "", fmt.Errorf("its security dashboard has no parameter %q: %w", p.Shown, driver.ErrUnsupported)
}

// place is where a parameter's setting is: a resource, and the objects in it that it lies in.
func (p parameter) place(turn *redfish.Turn) (at string, within []string, err error) {
	var manager struct{ NetworkProtocol redfish.Link }
	path, err := turn.Manager(&manager)
	switch {
	case err != nil:
		return "", nil, err
	case p.In == inManager:
		return path, []string{"Oem", "Hpe"}, nil
	case p.In == inNetwork && manager.NetworkProtocol.Path == "":
		return "", nil, fmt.Errorf("it shows no network protocols: %w", driver.ErrUnsupported)
	case p.In == inNetwork:
		return manager.NetworkProtocol.Path, []string{"IPMI"}, nil
	}
	var root struct{ AccountService redfish.Link }
	if err := turn.Read("/redfish/v1/", &root); err != nil {
		return "", nil, err
	}
	if root.AccountService.Path == "" {
		return "", nil, fmt.Errorf("it shows no account service: %w", driver.ErrUnsupported)
	}
	return root.AccountService.Path, []string{"Oem", "Hpe"}, nil
}

// kept has a field of a resource be a value.
func kept(turn *redfish.Turn, at, field string, want any, within []string) error {
	read := func() (any, error) {
		var now map[string]any
		if err := turn.Read(at, &now); err != nil {
			return nil, err
		}
		for _, name := range within {
			now, _ = now[name].(map[string]any)
		}
		return now[field], nil
	}
	switch now, err := read(); {
	case err != nil:
		return err
	case now == nil:
		return fmt.Errorf("it shows no %s at %s: %w", field, at, driver.ErrUnsupported)
	case now == want:
		return nil
	}
	var body any = map[string]any{field: want}
	for _, name := range slices.Backward(within) {
		body = map[string]any{name: body}
	}
	if _, err := turn.Change(at, body); err != nil {
		return err
	}
	if now, err := read(); err != nil {
		return err
	} else if now != want {
		return fmt.Errorf("it accepted %s %v and shows %v: look at its log", field, want, now)
	}
	return nil
}
