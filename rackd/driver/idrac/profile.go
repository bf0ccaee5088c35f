package idrac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// A server configuration profile (SCP) is all settings of a machine. It is kept in the form in which Ironic kept it.

// The names of arguments are Ironic's.
const (
	argExport = "export_configuration_location"
	argImport = "import_configuration_location"
)

// mold is a profile in its store.
type mold struct {
	Oem struct {
		Interface string          `json:"interface"`
		Data      json.RawMessage `json:"data"`
	} `json:"oem"`
}

// exports is how many looks an export may take.
const exports = 180

func (m Management) profileSteps() []driver.Step {
	where := map[string]driver.Argument{argExport: {Description: "URL of location to save the configuration to.", Required: true}}
	from := map[string]driver.Argument{argImport: {Description: "URL of location to fetch desired configuration from.", Required: true}}
	step := func(name string, run func(context.Context, *driver.Task) (driver.Outcome, error), takes ...map[string]driver.Argument) driver.Step {
		s := driver.Step{Interface: "management", Name: name, In: driver.InClean | driver.InDeploy, Kind: driver.Reattachable, Retries: 4, Pause: look,
			NoRamdisk: true, Run: run, Takes: map[string]driver.Argument{}}
		for _, some := range takes {
			for name, a := range some {
				s.Takes[name] = a
			}
		}
		s.Check = func(n *node.Document, args map[string]any) error {
			var wrong []error
			for name := range s.Takes {
				wrong = append(wrong, checkLocation(n, name, args))
			}
			return errors.Join(wrong...)
		}
		return s
	}
	return []driver.Step{
		step("export_configuration", m.export, where),
		step("import_configuration", m.importing, from),
		step("import_export_configuration", m.importExport, from, where),
	}
}

// exporting is the handle of an export. To export again is harmless.
type exporting struct {
	Job   string `json:"job,omitempty"`
	Looks int    `json:"looks,omitempty"`
}

// export has the iDRAC write its profile, and saves it.
func (m Management) export(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "export the configuration"
	at, _ := t.Args[argExport].(string)
	if m.Store == nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %s: this rackd has no place for configurations: %w", t.Node.Label(), doing, driver.ErrUnsupported)
	}
	var h exporting
	if err := handle(t, doing, &h); err != nil {
		return driver.Outcome{}, err
	}
	if h.Job == "" {
		err := m.Turn(ctx, t.Fence, t.Node, doing, func(turn *redfish.Turn) (err error) { h.Job, err = orderExport(turn); return err })
		if err != nil {
			return driver.Outcome{}, err
		}
		return driver.Wait(look), t.Record.SaveHandle(ctx, h)
	}
	var got map[string]json.RawMessage
	code := 0
	err := m.Turn(ctx, nil, t.Node, doing, func(turn *redfish.Turn) (err error) {
		code, err = turn.ReadCode(h.Job, &got)
		return err
	})
	if err != nil && !errors.Is(err, driver.ErrUnreachable) {
		return driver.Outcome{}, err
	}
	if h.Looks++; err != nil || code == http.StatusAccepted || got["SystemConfiguration"] == nil && !ended(got) {
		if h.Looks > exports {
			return driver.Outcome{}, fmt.Errorf("node %s: %s: its task %s has not ended within %s: look at the iDRAC's log", t.Node.Label(), doing, h.Job, exports*look)
		}
		return driver.Wait(look), t.Record.SaveHandle(ctx, h)
	}
	if got["SystemConfiguration"] == nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %s: its task %s ended without a configuration: %s", t.Node.Label(), doing, h.Job, said(got))
	}
	if err := m.save(ctx, at, got); err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %s: %w", t.Node.Label(), doing, err)
	}
	t.Record.Phase("configuration exported", "to "+shown(at))
	return driver.Done(), nil
}

// ended reports whether a task has ended.
func ended(task map[string]json.RawMessage) bool {
	var state string
	_ = json.Unmarshal(task["TaskState"], &state)
	return slices.Contains([]string{"Completed", "Exception", "Killed", "Cancelled"}, state)
}

// said is the last message of a task.
func said(task map[string]json.RawMessage) string {
	var list []struct{ Message string }
	if json.Unmarshal(task["Messages"], &list) != nil || len(list) == 0 {
		return "it says nothing"
	}
	text := list[len(list)-1].Message
	return text[:min(len(text), 300)]
}

func orderExport(t *redfish.Turn) (string, error) {
	m, err := managerOf(t)
	if err != nil {
		return "", err
	}
	export, err := m.profile("ExportSystemConfiguration")
	if err != nil {
		return "", err
	}
	job, err := t.Order(export.Target, map[string]any{"ShareParameters": map[string]any{"Target": "ALL"}, "ExportFormat": "JSON", "ExportUse": "Clone",
		"IncludeInExport": "IncludeReadOnly,IncludePasswordHashValues"})
	if err == nil && job == "" {
		err = errors.New("it accepted the export, and names no task")
	}
	return job, err
}

// lockingOut are the beginnings of attributes of the iDRAC that would cut it off where another machine imported them.
var lockingOut = []string{"IPv4Static", "IPv6Static", "IPv4.1#Enable", "IPv4.1#DHCPEnable", "IPv6.1#Enable", "IPv6.1#AutoConfig"}

// save saves a profile without what would cut off the iDRAC that imports it.
func (m Management) save(ctx context.Context, at string, got map[string]json.RawMessage) error {
	var profile map[string]any
	if err := json.Unmarshal(got["SystemConfiguration"], &profile); err != nil {
		return errors.New("its configuration cannot be read")
	}
	components, _ := profile["Components"].([]any)
	for _, c := range components {
		component, _ := c.(map[string]any)
		if component["FQDD"] != "iDRAC.Embedded.1" {
			continue
		}
		attributes, _ := component["Attributes"].([]any)
		component["Attributes"] = slices.DeleteFunc(attributes, func(a any) bool {
			one, _ := a.(map[string]any)
			name, _ := one["Name"].(string)
			return slices.ContainsFunc(lockingOut, func(begin string) bool { return strings.HasPrefix(name, begin) })
		})
	}
	var kept mold
	kept.Oem.Interface = "idrac-redfish"
	data, err := json.Marshal(map[string]any{"SystemConfiguration": profile})
	if err != nil {
		return errors.New("its configuration cannot be written")
	}
	kept.Oem.Data = data
	raw, err := json.Marshal(kept)
	if err != nil {
		return errors.New("its configuration cannot be written")
	}
	return m.Store.Save(ctx, at, raw)
}

// importing loads a profile and has the iDRAC take it, which restarts the machine.
func (m Management) importing(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	return redfish.Errand{Driver: m.Driver, Bringup: m.Bringup, Doing: "import the configuration", Give: func(ctx context.Context, turn *redfish.Turn, save func() error) (string, error) {
		at, _ := t.Args[argImport].(string)
		profile, err := m.load(ctx, at)
		if err != nil {
			return "", err
		}
		k, err := managerOf(turn)
		if err != nil {
			return "", err
		}
		if left, err := openJobs(turn, k); err != nil || len(left) > 0 {
			return "", errors.Join(err, queued(t.Node, left))
		}
		order, err := k.profile("ImportSystemConfiguration")
		if err != nil {
			return "", err
		}
		if order.ShutdownTypes != nil && !slices.Contains(order.ShutdownTypes, "NoReboot") {
			return "", fmt.Errorf("it imports with the shutdowns %v only, not with NoReboot: %w", order.ShutdownTypes, driver.ErrUnsupported)
		}
		if err := save(); err != nil {
			return "", err
		}
		return turn.Order(order.Target, map[string]any{"ShareParameters": map[string]any{"Target": "ALL"}, "ImportBuffer": string(profile), "ShutdownType": "NoReboot"})
	}, Ended: imported}.Run(ctx, t)
}

// imported refuses an import that has ended with errors, of which the task's state tells nothing.
func imported(t *redfish.Turn, job string) error {
	var task struct {
		Messages []struct{ Message, MessageID, Severity string }
	}
	if err := t.Read(job, &task); err != nil {
		return err
	}
	var wrong []string
	for _, m := range task.Messages {
		// SYS055: it has imported some, and not all.
		if m.Message != "" && (m.Severity != "" && m.Severity != "OK" || strings.Contains(m.MessageID, "SYS055")) {
			wrong = append(wrong, m.Message)
		}
	}
	if len(wrong) > 0 {
		asIronic := fmt.Sprintf("Failed import configuration task: %s. Message: '%s'.", job, strings.Join(wrong, ", "))
		return errors.New(asIronic)
	}
	return nil
}

// load reads a profile from its store.
func (m Management) load(ctx context.Context, at string) (json.RawMessage, error) {
	if m.Store == nil {
		return nil, fmt.Errorf("this rackd has no place for configurations: %w", driver.ErrUnsupported)
	}
	raw, err := m.Store.Load(ctx, at)
	if err != nil {
		return nil, err
	}
	var kept mold
	if err := json.Unmarshal(raw, &kept); err != nil || len(kept.Oem.Data) == 0 {
		return nil, fmt.Errorf("what is at %s is no configuration that export_configuration has saved: %w", shown(at), driver.ErrInvalid)
	}
	if kept.Oem.Interface != "idrac-redfish" {
		return nil, fmt.Errorf("the configuration at %s is of the interface %.40q, not of idrac-redfish: %w", shown(at), kept.Oem.Interface, driver.ErrInvalid)
	}
	return kept.Oem.Data, nil
}

// both is the handle of import_export_configuration.
type both struct {
	Import   json.RawMessage `json:"import,omitempty"`
	Imported bool            `json:"imported,omitempty"`
	Export   json.RawMessage `json:"export,omitempty"`
}

func (m Management) importExport(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h both
	if err := handle(t, "import and export the configuration", &h); err != nil {
		return driver.Outcome{}, err
	}
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }
	part := *t
	if !h.Imported {
		part.Record = driver.Part{Recorder: t.Record, Kept: &h.Import, Save: save}
		out, err := m.importing(ctx, &part)
		if _, waits := out.Waiting(); err != nil || waits {
			return out, err
		}
		h.Imported = true
		if err := save(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	part.Record = driver.Part{Recorder: t.Record, Kept: &h.Export, Save: save}
	return m.export(ctx, &part)
}
