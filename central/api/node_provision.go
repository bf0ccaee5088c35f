package api

import (
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// The versions that brought arguments of the provision request.
const (
	rebuildDriveSince   microversion.Version = 35
	driveObjectSince    microversion.Version = 56
	vendorDataSince     microversion.Version = 59
	deployStepsSince    microversion.Version = 69
	disableRamdiskSince microversion.Version = 70
	serviceRamdiskSince microversion.Version = 108
	runbookSince        microversion.Version = 92
)

// setProvisionState is the rule of who may move a node's provision state.
const setProvisionState = "baremetal:node:set_provision_state"

// stepRules are the rules of who may say the steps themselves, without a runbook.
var stepRules = map[provision.Event]string{
	provision.EventClean:   setProvisionState + ":clean_steps",
	provision.EventService: setProvisionState + ":service_steps",
}

func (s *Server) setProvision(r *Request) (Reply, error) {
	body, err := r.provisionArguments()
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	p, runbook, err := readProvision(r, n, body)
	if err != nil {
		return Reply{}, err
	}
	if runbook != "" {
		if err := s.useRunbook(r, &p, runbook); err != nil {
			return Reply{}, err
		}
	} else if rule := stepRules[p.Verb.Event]; rule != "" && len(p.Steps) > 0 {
		if err := s.allowed(r, rule, p.Node); err != nil {
			return Reply{}, err
		}
	}
	if err := s.checkChosenSecrets(r, p.Node, p.Steps, false); err != nil {
		return Reply{}, err
	}
	p.Caller, p.MayUse = caller(r), s.mayUseChild(r, stepRules[p.Verb.Event], p.Steps)
	if err := s.dispatch.Provision(r.Context(), p); err != nil {
		return Reply{}, storeError(err)
	}
	return accepted(statesLocation(r))
}

// provisionArguments reads what the request is told. A config drive that is an object, in a body that is not small, stays as it
// was sent (wire.Raw): nothing here reads it, and as values it would take many times its length.
func (r *Request) provisionArguments() (map[string]any, error) {
	raw, err := wire.Read(r.writer, r.Request, wire.MaxProvisionBody, r.holds)
	if err != nil {
		return nil, err
	}
	var body any
	if len(raw) > wire.Small {
		body, err = apart(raw, "configdrive", r.holds)
	} else if len(raw) > 0 {
		body, err = wire.Decode(raw)
	}
	if err != nil {
		return nil, err
	}
	return r.withQuery(body, "target", "target", "configdrive", "clean_steps", "deploy_steps", "service_steps",
		"rescue_password", "disable_ramdisk", "runbook")
}

// apart decodes a body without its member of a name, where that is an object.
func apart(raw wire.Raw, kept string, room wire.Room) (map[string]any, error) {
	if err := wire.Check(raw); err != nil {
		return nil, err
	}
	if raw.Kind() != '{' {
		return nil, wire.Invalid("The request's body must be a JSON object")
	}
	body := map[string]any{}
	for name, v := range raw.Members() {
		if name != kept || v.Kind() != '{' {
			if err := wire.Afford(v, room); err != nil {
				return nil, err
			}
			value, err := wire.Decode(v)
			if err != nil {
				return nil, err
			}
			body[name] = value
			continue
		}
		body[name] = v
	}
	if drive, given := body[kept]; given {
		size := int64(0)
		switch drive := drive.(type) {
		case string:
			size = int64(len(drive))
		case wire.Raw:
			size = int64(len(drive))
		}
		if err := room((driveCopies - 2) * size); err != nil { // two were counted, or are not made
			return nil, err
		}
	}
	return body, nil
}

// mayUseChild says what speaks against a step on a child node: what would if it were asked for the node itself.
func (s *Server) mayUseChild(r *Request, rule string, steps []work.Step) func(*store.Node) error {
	return func(child *store.Node) error {
		if r.see(child, child.UUID) != nil {
			return store.ErrNotFound
		}
		if err := s.allowed(r, setProvisionState, child); err != nil {
			return err
		}
		if rule != "" {
			if err := s.allowed(r, rule, child); err != nil {
				return err
			}
		}
		return s.checkChosenSecrets(r, child, steps, true)
	}
}

// readProvision reads what the request asks of n; runbook is the one that it names, empty
// for none.
func readProvision(r *Request, n *store.Node, body map[string]any) (p dispatch.Provision, runbook string, err error) {
	if err := checkKinds(body); err != nil {
		return p, "", err
	}
	name := said(body["target"])
	verb, known := provision.LookupVerb(name)
	if !known {
		if dispatch.Busy(n) {
			return p, "", dispatch.Occupied(n)
		}
		return p, "", wire.Invalid("The requested action \"%.80s\" can not be performed on node \"%s\" while it is in state \"%s\".",
			name, n.UUID, n.ProvisionState)
	}
	tooNew := error(nil)
	if since := microversion.Version(verb.Since); r.Version < since {
		tooNew = wire.NotAcceptable("The provision action "+name, since)
	}
	late := verb.Event == provision.EventUnhold || verb.Event == provision.EventService
	if tooNew != nil && !late {
		return p, "", tooNew
	}
	if _, err := dispatch.Actionable(n, verb); err != nil {
		return p, "", err
	}
	if tooNew != nil {
		return p, "", tooNew
	}
	p.Node = n
	for _, name := range []string{"clean_steps", "deploy_steps", "service_steps", "configdrive", "runbook"} {
		if empty(name, body[name]) {
			delete(body, name)
		}
	}
	p.Verb, p.Version = verb, int(r.Version)
	if runbook, err = readRunbook(r, &p, body); err != nil {
		return p, "", err
	}
	if err := readDisableRamdisk(r, &p, body["disable_ramdisk"]); err != nil {
		return p, "", err
	}
	if err := readSteps(r, &p, body, runbook != ""); err != nil {
		return p, "", err
	}
	if err := readRescue(&p, body); err != nil {
		return p, "", err
	}
	if p.ConfigDrive, err = readConfigDrive(r.Version, verb.Event, body["configdrive"]); err != nil {
		return p, "", err
	}
	return p, runbook, nil
}

// checkKinds refuses arguments whose values are of a kind that no action takes, whatever is
// asked for and of what node.
func checkKinds(body map[string]any) error {
	for _, name := range []string{"target", "rescue_password"} {
		if _, isText := body[name].(string); !isText && body[name] != nil {
			return wire.Invalid("Expected string for %s: %.80s", name, wire.ReprOf(name, body[name]))
		}
	}
	for _, name := range []string{"clean_steps", "deploy_steps", "service_steps"} {
		if _, isList := body[name].([]any); !isList && body[name] != nil {
			return wire.Invalid("Expected types <class 'NoneType'>, <class 'list'> for %s: %.80s", name, said(body[name]))
		}
	}
	switch body["configdrive"].(type) {
	case nil, string, map[string]any, wire.Raw:
	default:
		return wire.Invalid("Expected types <class 'NoneType'>, <class 'dict'>, <class 'str'> for configdrive: %.80s", noDrive(body["configdrive"]))
	}
	if _, isText := body["runbook"].(string); !isText && body["runbook"] != nil {
		return wire.Invalid("Expected types <class 'NoneType'>, <class 'str'> for runbook: %.80s", said(body["runbook"]))
	}
	if body["disable_ramdisk"] == nil {
		return nil
	}
	_, err := truth("disable_ramdisk", body["disable_ramdisk"])
	return err
}

// noDrive shows what was sent for a config drive and is none: of a list, which may hold parts of one, no more than that.
func noDrive(v any) string {
	if _, isList := v.([]any); isList {
		return "a list"
	}
	return said(v)
}

// empty reports whether an argument is there and yet says nothing.
func empty(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0 && name == "configdrive"
	case wire.Raw:
		for range v.Members() {
			return false
		}
		return true
	}
	return false
}

func readRescue(p *dispatch.Provision, body map[string]any) error {
	given := body["rescue_password"] != nil
	if p.Verb.Event != provision.EventRescue {
		if given {
			return wire.Invalid("\"rescue_password\" is only valid when setting target provision state to rescue")
		}
		return nil
	}
	p.RescuePassword, _ = body["rescue_password"].(string)
	if strings.TrimSpace(p.RescuePassword) == "" {
		return wire.Invalid("A non-empty \"rescue_password\" is required when setting target provision state to rescue")
	}
	if len(p.RescuePassword) > maxRescuePassword {
		return wire.Invalid("\"rescue_password\" has %d bytes, more than %d", len(p.RescuePassword), maxRescuePassword)
	}
	return nil
}

func readDisableRamdisk(r *Request, p *dispatch.Provision, v any) error {
	if v == nil {
		return nil
	}
	since := disableRamdiskSince
	switch p.Verb.Event {
	case provision.EventClean:
	case provision.EventService:
		since = serviceRamdiskSince
	default:
		return wire.Invalid("disable_ramdisk is supported only with manual cleaning or servicing")
	}
	if r.Version < since {
		return wire.NotAcceptable("The argument disable_ramdisk", since)
	}
	var err error
	p.DisableRamdisk, err = truth("disable_ramdisk", v)
	return err
}
