package node

import (
	"encoding/json"
	"strconv"

	"github.com/ironyard/ironyard/protocol/jsontext"
)

// Append appends the document as JSON: what json.Marshal makes of it, where it holds what is
// usual at a third of the cost.
// Central writes one for each change of a node. It fails on a value that JSON cannot hold.
func (d *Document) Append(b []byte) ([]byte, error) {
	w := writer{b: append(b, '{')}
	w.always("uuid", d.UUID)
	w.text("name", d.Name)
	w.text("group", d.Group)
	w.always("driver", d.Driver)
	w.number("generation", d.Generation)
	w.number("revision", d.Revision)
	if !d.Updated.IsZero() {
		w.value("updated", d.Updated)
	}
	if len(d.Interfaces) > 0 {
		w.value("interfaces", d.Interfaces)
	}
	w.object("driver_info", d.DriverInfo)
	w.object("properties", d.Properties)
	w.object("instance_info", d.InstanceInfo)
	w.text("instance_uuid", d.InstanceUUID)
	if len(d.Traits) > 0 {
		w.value("traits", d.Traits)
	}
	w.ports(d.Ports)
	w.always("provision_state", string(d.State))
	w.flag("maintenance", d.Maintenance)
	w.text("fault", d.Fault)
	if d.AutomatedClean != nil {
		w.value("automated_clean", *d.AutomatedClean)
	}
	w.flag("disable_power_off", d.DisablePowerOff)
	w.flag("retired", d.Retired)
	w.object("target_raid_config", d.TargetRAID)
	if len(d.Kept) > 0 {
		w.value("kept", d.Kept)
	}
	return append(w.b, '}'), w.err
}

// writer writes members of an object; err is the first error.
type writer struct {
	b   []byte
	err error
}

// begin writes a name, which needs no escapes.
func (w *writer) begin(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

func (w *writer) always(name, text string) {
	w.begin(name)
	w.b = jsontext.AppendString(w.b, text)
}

// text leaves out what is empty, like the methods below.
func (w *writer) text(name, text string) {
	if text != "" {
		w.always(name, text)
	}
}

func (w *writer) flag(name string, on bool) {
	if on {
		w.begin(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *writer) number(name string, n int64) { // zero, too
	w.begin(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *writer) object(name string, m map[string]any) {
	if len(m) > 0 {
		w.value(name, m)
	}
}

func (w *writer) ports(list []Port) {
	if len(list) == 0 {
		return
	}
	w.begin("ports")
	w.b = append(w.b, '[')
	for i, p := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '{')
		w.always("uuid", p.UUID)
		w.always("address", p.Address)
		w.begin("pxe_enabled")
		w.b = append(strconv.AppendBool(w.b, p.PXEEnabled), '}')
	}
	w.b = append(w.b, ']')
}

func (w *writer) value(name string, v any) {
	w.begin(name)
	var err error
	w.b, err = jsontext.Append(w.b, v, func(b []byte, v any) ([]byte, error) {
		text, err := json.Marshal(v)
		return append(b, text...), err
	})
	if w.err == nil {
		w.err = err
	}
}
