// Package driverinfo judges single values of a node's driver_info: those that are wrong whatever else the node says, such as a
// port that is no number. Central refuses them when they are set, and rackds find them in `validate`, in the same words.
//
// Of the project it imports protocol/agentapi, which says what may stand on a kernel's command line. Invariants:
//   - A missing value is never wrong: clients set fields in any order.
//   - A field is judged only where an interface of the node reads it, and only by what this one value can tell.
//   - A refusal names no secret.
//
// What depends on several fields, on files or on networks of a rack is for the drivers alone. A field without a rule here is
// judged by its driver. A test of rackd/drivers compares each sentence with what the drivers' Validate says.
package driverinfo

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Info is what the rules see of a node.
type Info struct {
	UUID, Driver string
	Fields       map[string]any // driver_info
}

// text is a value as text, empty for none.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}

func (i Info) text(field string) string { return text(i.Fields[field]) }

// rule is for the fields of one name that some interfaces read.
type rule struct {
	// readers are the interfaces that read the field, by their names, of whatever kind.
	readers []string
	// reads reports whether they do for this node; nil: always.
	reads func(Info) bool
	// wrong says what is wrong with a text that is not empty; empty: nothing that it can tell. nil: it tells nothing.
	wrong func(field, text, uuid string) string
	// typed: the driver takes no number for a text.
	typed bool
}

// says is wrong for a value and its text.
func (r rule) says(field string, value any, uuid string) string {
	if _, is := value.(string); r.typed && !is {
		return fmt.Sprintf("The value is not a string for '%s'.", field)
	}
	if r.wrong == nil {
		return ""
	}
	return OneLine(r.wrong(field, text(value), uuid))
}

// OneLine is a text with its control characters written out: a value is told with its line breaks as \n.
func OneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var line strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			line.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			line.WriteRune(r)
		}
	}
	return line.String()
}

// Wrong says what is wrong with the value of a field that one of the readers reads; empty: nothing.
func Wrong(reader, field, text, uuid string) string {
	if text == "" {
		return ""
	}
	for _, r := range rules[field] {
		if slices.Contains(r.readers, reader) {
			return r.says(field, text, uuid)
		}
	}
	return ""
}

// Refusal says what is wrong with a value.
type Refusal struct {
	Why   string // in the words of validate
	Value string
}

// longestShown bounds what Told shows of a value, in characters, and longestTold what it says, in bytes.
const longestShown, longestTold = 60, 500

// Told is Why for answers, logs and the audit: a long value is cut, and what stands before an @, as a user and a password do, is masked.
func (r Refusal) Told() string {
	shown := r.Value
	if at := strings.LastIndexByte(shown, '@'); at >= 0 {
		shown = "******" + shown[at:]
	}
	if chars := []rune(shown); len(chars) > longestShown {
		shown = string(chars[:longestShown]) + "…"
	}
	why := r.Why
	if shown != r.Value {
		for _, as := range []string{strconv.Quote(r.Value), r.Value, strings.ToLower(r.Value), OneLine(r.Value), OneLine(strings.ToLower(r.Value)), url.PathEscape(r.Value)} {
			why = strings.ReplaceAll(why, as, quotedAs(as, r.Value, shown))
		}
	}
	if len(why) > longestTold {
		why = strings.ToValidUTF8(why[:longestTold], "") + "…"
	}
	return why
}

// quotedAs is shown in quotes, if as is how value is quoted.
func quotedAs(as, value, shown string) string {
	if as == strconv.Quote(value) {
		return strconv.Quote(shown)
	}
	return shown
}

// NewlyWrong says what is wrong with the fields of n that differ from those before, as far as the interfaces read them.
// interfaces are names by kind. except is a value that stands for one that is not told.
func NewlyWrong(n Info, before map[string]any, interfaces map[string]string, except string) (wrong []Refusal) {
	for _, field := range slices.Sorted(maps.Keys(n.Fields)) {
		known := rules[field]
		if len(known) == 0 {
			continue
		}
		said := text(n.Fields[field])
		// By their texts, as drivers read them: a number is of one type in a request and of another in the database.
		if was, had := before[field]; said == "" || said == except || had && text(was) == said {
			continue
		}
		for _, r := range known {
			if !readBy(r, n.Driver, interfaces) || r.reads != nil && !r.reads(n) {
				continue
			}
			why := r.says(field, n.Fields[field], n.UUID)
			if why != "" && !slices.ContainsFunc(wrong, func(r Refusal) bool { return r.Why == why }) {
				wrong = append(wrong, Refusal{why, said})
			}
		}
	}
	return wrong
}

func readBy(r rule, driver string, interfaces map[string]string) bool {
	for kind, name := range interfaces {
		if slices.Contains(r.readers, Reader(driver, kind, name)) {
			return true
		}
	}
	return false
}

// ownConsoles are the consoles that read other fields than their names say, by driver and name, with the reader of those.
var ownConsoles = map[string]map[string]string{
	"irmc": {"ipmitool-socat": irmcOverLAN, "ipmitool-shellinabox": irmcOverLAN},
	"ilo":  {"ilo": iloOverLAN, "redfish-serial": iloSerial},
	"ilo5": {"ilo": iloOverLAN, "redfish-serial": iloSerial},
}

// Reader is the name by which rules know an interface of a hardware type. The console ipmitool-socat of an iRMC reads irmc_address.
// Fake hardware has interfaces of the names of others, and but one of them reads what the others read.
func Reader(driver, kind, name string) string {
	if driver == "fake-hardware" && !(kind == "deploy" && name == "direct") {
		return "fake"
	}
	if own := ownConsoles[driver][name]; own != "" && kind == "console" {
		return own
	}
	return name
}

// Each calls do for each rule: a field and the names of the interfaces that read it.
func Each(do func(field string, readers []string)) {
	for field, list := range rules {
		for _, r := range list {
			do(field, r.readers)
		}
	}
}
