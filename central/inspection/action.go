package inspection

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/driverinfo"
	"github.com/ironyard/ironyard/protocol/seal"
)

// action does something to a subject.
type action struct {
	signature
	do func(s *Subject, args map[string]any) error
}

var (
	placed   = takes("path", "value")
	extended = signature{required: []string{"path", "value"}, optional: []string{"unique"}}
)

// actionTable is every action. It is filled at start: rules that run refer to it. Rules that
// were written for Ironic may name plugin_data as an argument; there is nothing to say with it.
var actionTable map[string]action

func init() {
	actionTable = map[string]action{
		"fail":               {takes("msg"), func(_ *Subject, args map[string]any) error { return failed("%s", Text(args["msg"])) }},
		"log":                {signature{required: []string{"msg"}, optional: []string{"level"}}, logMessage},
		"set-attribute":      {placed, onNode(setTo)},
		"extend-attribute":   {extended, onNode(extendBy)},
		"del-attribute":      {takes("path"), onNode(removed)},
		"set-capability":     {takes("name", "value"), setCapability},
		"unset-capability":   {takes("name"), unsetCapability},
		"add-trait":          {takes("name"), addTrait},
		"remove-trait":       {takes("name"), removeTrait},
		"set-plugin-data":    {signature{required: []string{"path", "value"}, optional: []string{"plugin_data"}}, onPlugin(setTo)},
		"extend-plugin-data": {signature{required: []string{"path", "value"}, optional: []string{"unique", "plugin_data"}}, onPlugin(extendBy)},
		"unset-plugin-data":  {signature{required: []string{"path"}, optional: []string{"plugin_data"}}, onPlugin(removed)},
		"set-port-attribute": {takes("port_id", "path", "value"), onPort(setTo)},
		"extend-port-attribute": {signature{required: []string{"port_id", "path", "value"}, optional: []string{"unique"}},
			onPort(extendBy)},
		"del-port-attribute": {takes("port_id", "path"), onPort(removed)},
		"api-call": {signature{required: []string{"url"}, optional: []string{"headers", "proxies", "timeout", "retries", "backoff_factor"}},
			noteCall},
	}
}

// apply runs an action on s, once for each item of its loop.
func (a *Action) apply(s *Subject) error {
	if a.Loop == nil {
		return a.once(s)
	}
	items, isList := a.Loop.([]any)
	if !isList {
		items = []any{a.Loop}
	}
	for _, item := range items {
		end := s.round(item)
		err := a.once(s)
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Action) once(s *Subject) error {
	args, _ := s.interpolate(a.Args).(map[string]any)
	var err error
	if a.Op == "api-call" {
		err = ownServer(Text(a.Args["url"]))
	}
	if err == nil {
		err = actionTable[a.Op].do(s, args)
	}
	if _, ok := err.(*Failure); ok || err == nil {
		return err
	}
	return fmt.Errorf("action %s: %w", a.Op, err)
}

func logMessage(s *Subject, args map[string]any) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn,
		"error": slog.LevelError, "critical": slog.LevelError}
	level := "info"
	if v := args["level"]; v != nil {
		level = strings.ToLower(Text(v))
	}
	l, known := levels[level]
	if !known {
		return fmt.Errorf("there is no log level %.80q", level)
	}
	s.Log.Log(context.Background(), l, Text(args["msg"]), "node", s.Node.UUID)
	return nil
}

// setTo, extendBy and removed are the changes at the end of a path.
func setTo(args map[string]any) change {
	return func(any) (any, bool, error) { return clone(args["value"]), false, nil }
}

func extendBy(args map[string]any) change {
	return func(old any) (any, bool, error) {
		list, isList := old.([]any)
		if !isList && old != nil {
			return nil, false, fmt.Errorf("cannot extend %.80s, which is no list", shown(old))
		}
		value := args["value"]
		unique, _ := truth(args["unique"], "yes", "true")
		if unique && slices.ContainsFunc(list, func(v any) bool { same, _ := equal(v, value); return same }) {
			return list, false, nil
		}
		return append(slices.Clone(list), clone(value)), false, nil
	}
}

func removed(map[string]any) change {
	return func(old any) (any, bool, error) {
		if old == nil {
			return nil, false, fmt.Errorf("there is nothing to remove")
		}
		return nil, true, nil
	}
}

func onNode(do func(args map[string]any) change) func(*Subject, map[string]any) error {
	return func(s *Subject, args map[string]any) error {
		path := Text(args["path"])
		if s.Seal == nil && strings.HasSuffix(splitPath(path)[0], "_info") {
			return fmt.Errorf("attribute %.200s may hold secrets, and there is no key to seal them with", path)
		}
		before := s.Node.DriverInfo
		if err := edit(s.Node, attributes, path, do(args)); err != nil {
			return fmt.Errorf("attribute %.200s: %w", path, err)
		}
		// As the API judges what a client sets. A wrong address would keep racks from the machine.
		n := driverinfo.Info{UUID: s.Node.UUID, Driver: s.Node.Driver, Fields: s.Node.DriverInfo}
		if wrong := driverinfo.NewlyWrong(n, before, s.Node.Interfaces, ""); len(wrong) > 0 {
			return fmt.Errorf("attribute %.200s: %s", path, wrong[0].Told())
		}
		if s.Seal != nil {
			s.Node.DriverInfo, s.Node.InstanceInfo = s.Seal(seal.DriverInfo, s.Node.DriverInfo), s.Seal(seal.InstanceInfo, s.Node.InstanceInfo)
		}
		s.NodeChanged = true
		return nil
	}
}

func onPort(do func(args map[string]any) change) func(*Subject, map[string]any) error {
	return func(s *Subject, args map[string]any) error {
		id := Text(args["port_id"])
		i := slices.IndexFunc(s.Ports, func(p *store.Port) bool { return p.UUID == id })
		if i < 0 {
			return fmt.Errorf("port %.80s could not be found", id)
		}
		path := Text(args["path"])
		if err := edit(s.Ports[i], portAttributes, path, do(args)); err != nil {
			return fmt.Errorf("attribute %.200s of port %s: %w", path, id, err)
		}
		s.portChanged(s.Ports[i])
		return nil
	}
}

func onPlugin(do func(args map[string]any) change) func(*Subject, map[string]any) error {
	return func(s *Subject, args map[string]any) error {
		path := Text(args["path"])
		parts := strings.Split(path, ".")
		err := editIn(s.Plugin, parts, do(args))
		if err != nil {
			return fmt.Errorf("plugin data %.200s: %w", path, err)
		}
		return nil
	}
}

var traitPattern = regexp.MustCompile(`^[A-Z][A-Z0-9]*_[A-Z0-9_]+$`)

// maxTraits bounds the traits of a node, as the API does.
const maxTraits = 50

func addTrait(s *Subject, args map[string]any) error {
	name := Text(args["name"])
	switch {
	case len(name) > 255 || !traitPattern.MatchString(name):
		return fmt.Errorf("%.80q is no name of a trait", name)
	case slices.Contains(s.Node.Traits, name):
		return nil
	case len(s.Node.Traits) >= maxTraits:
		return fmt.Errorf("the node has %d traits, it can have no more", maxTraits)
	}
	s.Node.Traits, s.TraitsChanged = append(slices.Clone(s.Node.Traits), name), true
	return nil
}

// removeTrait takes a trait away; one that is not there is as good as gone.
func removeTrait(s *Subject, args map[string]any) error {
	name := Text(args["name"])
	if i := slices.Index(s.Node.Traits, name); i >= 0 {
		s.Node.Traits, s.TraitsChanged = slices.Delete(slices.Clone(s.Node.Traits), i, i+1), true
	}
	return nil
}

func setCapability(s *Subject, args map[string]any) error {
	return s.capability(Text(args["name"]), Text(args["value"]))
}

func unsetCapability(s *Subject, args map[string]any) error {
	return s.capability(Text(args["name"]), "")
}

// capability sets one of the capabilities in the node's properties ("a:b,c:d"); an
// empty value removes it.
func (s *Subject) capability(name, value string) error {
	if name == "" || strings.ContainsAny(name, ":,") || strings.Contains(value, ",") {
		return fmt.Errorf("%.80q cannot be the name, or %.80q the value, of a capability", name, value)
	}
	old, _ := s.Node.Properties["capabilities"].(string)
	if value == "" && old == "" {
		return nil
	}
	var list []string
	for part := range strings.SplitSeq(old, ",") {
		if key, _, _ := strings.Cut(part, ":"); part != "" && key != name {
			list = append(list, part)
		}
	}
	if value != "" {
		list = append(list, name+":"+value)
	}
	s.setProperty("capabilities", strings.Join(list, ","))
	return nil
}
