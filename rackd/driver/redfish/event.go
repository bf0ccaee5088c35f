package redfish

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// toldEvent is an event of a BMC (DSP2046, Event).
type toldEvent struct {
	EventTimestamp, Severity, MessageSeverity, Message eventText
	MessageID                                          eventText `json:"MessageId"`
	MessageArgs                                        arguments
	OriginOfCondition                                  origin
}

// eventText is a text of an event. One in another form, such as a link to it, is none, and costs the event nothing else.
type eventText string

// UnmarshalJSON implements json.Unmarshaler.
func (w *eventText) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*w = eventText(text)
	}
	return nil
}

// arguments are those of a message. Some firmwares give numbers.
type arguments []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, arg := range list[:min(len(list), mostArguments)] {
		var text string
		if json.Unmarshal(arg, &text) != nil {
			text = string(arg)
		}
		*a = append(*a, text)
	}
	return nil
}

// origin is the path of what an event is about. Firmwares write it as a link, old ones as a text.
type origin string

// UnmarshalJSON implements json.Unmarshaler. A link in another form is none.
func (o *origin) UnmarshalJSON(raw []byte) error {
	var text string
	var at ref
	switch {
	case json.Unmarshal(raw, &text) == nil:
		*o = origin(text)
	case json.Unmarshal(raw, &at) == nil:
		*o = origin(at.Path)
	}
	return nil
}

// eventsIn reads the events that a BMC streams or posts at once. One that cannot be read, or says nothing, costs no other one.
func eventsIn(data []byte) (list []driver.BMCEvent) {
	var told struct{ Events []json.RawMessage }
	if json.Unmarshal(data, &told) != nil {
		return nil
	}
	for _, raw := range told.Events {
		var e toldEvent
		if json.Unmarshal(raw, &e) != nil || e.Message == "" && e.MessageID == "" {
			continue // some firmwares only link to the event, and do not name it
		}
		if len(list) == driver.MostBMCEvents {
			break
		}
		list = append(list, driver.BMCEvent{ID: string(e.MessageID), At: timeAt(string(e.EventTimestamp)), Severity: severityOf(string(cmp.Or(e.MessageSeverity, e.Severity))),
			Text: e.text(), Concerns: e.OriginOfCondition.concerns()})
	}
	return list
}

// mostMessage and mostArgument bound what a message is made of, in bytes: a text may name an argument often.
const mostMessage, mostArgument, mostArguments = 2 << 10, 256, 9

// text is the event in words. Firmwares without words for it give the arguments of a message in a registry. Addresses in it let no
// reader in.
func (e toldEvent) text() string {
	if e.Message == "" {
		return bmc.WithoutAccess(strings.TrimSpace(string(e.MessageID) + " " + strings.Join(e.MessageArgs, ", ")))
	}
	var words []string
	for i, arg := range e.MessageArgs { // of one digit each
		words = append(words, "%"+strconv.Itoa(i+1), shortened(arg, mostArgument))
	}
	return bmc.WithoutAccess(strings.NewReplacer(words...).Replace(shortened(string(e.Message), mostMessage)))
}

// shortened is the beginning of a part of a message. What lets a reader in is taken out before the cut, so that no half of it stays.
func shortened(part string, most int) string {
	part = bmc.WithoutAccess(part)
	return part[:min(len(part), most)]
}

const systemsPath = "/redfish/v1/Systems/"

// concerns says of which nodes an event may be: one below a system is of the nodes with that system, and of those that name none.
func (o origin) concerns() func(*node.Document) bool {
	rest, within := strings.CutPrefix(string(o), systemsPath)
	if !within {
		return nil
	}
	system, _, _ := strings.Cut(rest, "/")
	return func(n *node.Document) bool {
		id := strings.TrimSuffix(n.DriverString(fieldSystem), "/")
		return id == "" || strings.TrimPrefix(id, systemsPath) == system
	}
}

// PostedEvents implements driver.EventSender.
func (d *Driver) PostedEvents(post []byte) []driver.BMCEvent { return eventsIn(post) }
