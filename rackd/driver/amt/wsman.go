package amt

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Where WS-Management lives, and the classes that are used.
const (
	wsmanPath = "/wsman"
	cim       = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/"
	anonymous = "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous"
	getAction = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Get"

	powerStates  = cim + "CIM_AssociatedPowerManagementService"
	powerService = cim + "CIM_PowerManagementService"
	computer     = cim + "CIM_ComputerSystem"
	bootConfig   = cim + "CIM_BootConfigSetting"
	bootSource   = cim + "CIM_BootSourceSetting"
	bootService  = cim + "CIM_BootService"

	bootConfig0 = "Intel(r) AMT: Boot Configuration 0"
)

// session is an answered challenge. The holder of the turn uses it.
type session struct {
	wire *bmc.HTTP
	at   bmc.Web
	c    *bmc.Challenge
}

// Close implements bmc.Session: AMT knows no sessions.
func (s *session) Close(context.Context) { s.Drop() }

// Drop implements bmc.Session.
func (s *session) Drop() { s.wire.Forget() }

// login gets a challenge, and tries the credentials by a read.
func login(ctx context.Context, at bmc.Web, o bmc.WebOptions) (*session, error) {
	wire, err := at.Open(o)
	if err != nil {
		return nil, err
	}
	s := &session{wire: wire, at: at}
	if err = s.challenged(ctx); err == nil {
		if _, err = powered(s.askPower(ctx)); isForgotten(err) {
			f, _ := errors.AsType[*bmc.Failure](err)
			err = bmc.RefusedLogin(f)
		}
	}
	if err != nil {
		wire.Forget()
		return nil, err
	}
	return s, nil
}

// isForgotten reports whether a request was answered 401.
func isForgotten(err error) bool {
	f, ok := errors.AsType[*bmc.Failure](err)
	return ok && f.Class == bmc.Denied && strings.HasPrefix(f.Said, "HTTP 401")
}

// challenged asks without credentials. The interface sleeps while the machine is off, and the first packets wake it: so it is
// asked twice.
func (s *session) challenged(ctx context.Context) error {
	ask := bmc.Request{Method: http.MethodPost, URL: s.at.URL(wsmanPath), Body: []byte{}}
	answer, err := s.wire.Ask(ctx, ask)
	if err != nil && ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED) {
		answer, err = s.wire.Ask(ctx, ask)
	}
	if err != nil {
		return err
	}
	if answer.Status != http.StatusUnauthorized {
		return &bmc.Failure{Said: fmt.Sprintf("HTTP %d, and asks for no digest; check %s and %s", answer.Status, fieldAddress, fieldPort)}
	}
	if s.c, err = bmc.ParseChallenge(answer.Header.Get("WWW-Authenticate")); err != nil {
		return &bmc.Failure{Said: err.Error()}
	}
	return nil
}

// ref is a reference to an instance of a class.
func ref(class, selector, value string) string {
	return `<a:Address>` + anonymous + `</a:Address><a:ReferenceParameters><w:ResourceURI>` + class + `</w:ResourceURI><w:SelectorSet><w:Selector Name="` + selector + `">` + escaped(value) +
		`</w:Selector></w:SelectorSet></a:ReferenceParameters>`
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
	return b.String()
}

// envelope is a message to one instance of a class.
func (s *session) envelope(action, class, selector, value, body string) bmc.Request {
	text := `<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" ` +
		`xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"><s:Header><a:Action s:mustUnderstand="true">` + action + `</a:Action><a:To s:mustUnderstand="true">` + wsmanPath +
		`</a:To><w:ResourceURI s:mustUnderstand="true">` + class + `</w:ResourceURI><a:MessageID s:mustUnderstand="true">uuid:` + uuid.NewString() + `</a:MessageID><a:ReplyTo><a:Address>` +
		anonymous + `</a:Address></a:ReplyTo>`
	if selector != "" {
		text += `<w:SelectorSet><w:Selector Name="` + selector + `">` + escaped(value) + `</w:Selector></w:SelectorSet>`
	}
	text += `</s:Header><s:Body>` + body + `</s:Body></s:Envelope>`
	return bmc.Request{Method: http.MethodPost, URL: s.at.URL(wsmanPath), Body: []byte(text), Header: http.Header{
		"Content-Type": {"application/soap+xml; charset=UTF-8"}, "Authorization": {s.c.Answer(s.at.User, s.at.Password, http.MethodPost, wsmanPath)}}}
}

// reply is what of all answers is read.
type reply struct {
	XMLName xml.Name
	Body    struct {
		Fault *struct {
			Reason string `xml:"Reason>Text"`
			Detail string `xml:"Detail>FaultDetail"`
		}
		Output []struct {
			XMLName   xml.Name
			Value     *string  `xml:"ReturnValue"`
			State     string   `xml:"PowerState"`
			Available []string `xml:"AvailableRequestedPowerStates"`
		} `xml:",any"`
	}
}

// sorted reads an answer.
func sorted(answer bmc.Answer, write bool) (r reply, err error) {
	if answer.Status == http.StatusUnauthorized {
		return r, bmc.Forgotten(bmc.StatusFailure(answer.Status, write, "Unauthorized", nil))
	}
	readable := xml.Unmarshal(answer.Body, &r) == nil && r.XMLName.Local == "Envelope"
	switch {
	case readable && r.Body.Fault != nil:
		return r, &bmc.Failure{Said: fmt.Sprintf("the fault %q %s", strings.TrimSpace(r.Body.Fault.Reason), strings.TrimSpace(r.Body.Fault.Detail))}
	case answer.Status != http.StatusOK:
		return r, bmc.StatusFailure(answer.Status, write, http.StatusText(answer.Status), nil)
	case !readable || len(r.Body.Output) == 0:
		f := &bmc.Failure{Said: "what is no message of WS-Management; check " + fieldAddress + ": " + string(answer.Body[:min(len(answer.Body), 100)])}
		if write {
			f.Class = bmc.Unknown
		}
		return r, f
	}
	return r, nil
}

// power is a power state, and those that may be asked for.
type power struct {
	is        string
	available []string
}

// state sorts DMTF's power states: sleeping machines are on.
func (p power) state() driver.PowerState {
	switch p.is {
	case "2", "3", "4":
		return driver.PowerOn
	case "6", "7", "8", "12", "13":
		return driver.PowerOff
	}
	return driver.PowerError
}

// choose returns the first of the requests that AMT takes now. Old versions do not tell which they take.
func (p power) choose(requests []string) (string, error) {
	if len(p.available) == 0 {
		return requests[0], nil
	}
	for _, r := range requests {
		if slices.Contains(p.available, r) {
			return r, nil
		}
	}
	return "", &bmc.Failure{Class: bmc.Unsupported, Said: fmt.Sprintf("that in the power state %s it takes the requests %s, and none of %s", p.is, strings.Join(p.available, " "), strings.Join(requests, " "))}
}

// power reads the power state. A connection that was kept and is dead loses the read: it is asked again once, with a digest for a new
// challenge, because AMT has forgotten the old one if it has started again.
func (s *session) power(ctx context.Context) (power, error) {
	answer, err := s.askPower(ctx)
	if lost, is := errors.AsType[*bmc.Lost](err); is && lost.Dead {
		s.wire.Forget()
		if err = s.challenged(ctx); err == nil {
			answer, err = s.askPower(ctx)
		}
	}
	return powered(answer, err)
}

func (s *session) askPower(ctx context.Context) (bmc.Answer, error) {
	return s.wire.Ask(ctx, s.envelope(getAction, powerStates, "", "", ""))
}

func powered(answer bmc.Answer, err error) (power, error) {
	if err != nil {
		return power{}, err
	}
	r, err := sorted(answer, false)
	if err != nil {
		return power{}, err
	}
	return power{r.Body.Output[0].State, r.Body.Output[0].Available}, nil
}

// invoke calls a method that changes the machine.
func (s *session) invoke(ctx context.Context, f driver.Fence, class, selector, value, method, params string) error {
	body := `<p:` + method + `_INPUT xmlns:p="` + class + `">` + params + `</p:` + method + `_INPUT>`
	answer, err := s.wire.Order(ctx, f, s.envelope(class+"/"+method, class, selector, value, body))
	if err != nil {
		return err
	}
	r, err := sorted(answer, true)
	if err != nil {
		return err
	}
	switch v := r.Body.Output[0].Value; {
	case v == nil:
		return &bmc.Failure{Class: bmc.Unknown, Said: method + " without a return value"}
	case *v == "0":
		return nil
	case *v == "1":
		return &bmc.Failure{Class: bmc.Unsupported, Said: method + " with the return value 1, not supported"}
	default:
		return &bmc.Failure{Said: method + " with the return value " + *v}
	}
}

// request asks for a power state.
func (s *session) request(ctx context.Context, f driver.Fence, state string) error {
	return s.invoke(ctx, f, powerService, "Name", "Intel(r) AMT Power Management Service", "RequestPowerStateChange",
		`<p:PowerState>`+state+`</p:PowerState><p:ManagedElement>`+ref(computer, "Name", "ManagedSystem")+`</p:ManagedElement>`)
}

// bootOnce makes a source the one of the next start: the order of the boot configuration, and its role.
func (s *session) bootOnce(ctx context.Context, f driver.Fence, source string) error {
	if err := s.invoke(ctx, f, bootConfig, "InstanceID", bootConfig0, "ChangeBootOrder", `<p:Source>`+ref(bootSource, "InstanceID", source)+`</p:Source>`); err != nil {
		return err
	}
	return s.invoke(ctx, f, bootService, "Name", "Intel(r) AMT Boot Service", "SetBootConfigRole",
		`<p:BootConfigSetting>`+ref(bootConfig, "InstanceID", bootConfig0)+`</p:BootConfigSetting><p:Role>1</p:Role>`)
}
