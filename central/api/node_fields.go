package api

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
)

// How many characters these have at most, as in Ironic.
const (
	maxConductorGroup = 255
	maxResourceClass  = 80
)

// nodeView is a node as a request sees it.
type nodeView struct {
	*store.Node
	version microversion.Version
	// owner is the live rackd that serves the node, empty for none.
	owner string
	// changing: the view is the answer to a change, which the owner has held the node for.
	changing bool
	// kept says which of the guarded fields the request may not see.
	kept [len(guarded)]bool
	// driverInfo and instanceInfo, if not nil, are shown unmasked.
	driverInfo, instanceInfo map[string]any
}

// holder is the rackd that works on the node. While its work waits for a machine or for an
// operator nobody holds the node, so that clients do not take it for locked. What answers a PATCH
// shows it as it is while it is changed, as Ironic's does.
func (n *nodeView) holder() string {
	switch {
	case n.changing:
		return n.owner
	case !dispatch.Busy(n.Node):
		return ""
	}
	return n.Reservation
}

type (
	nodeField = fields.Field[nodeView]
	text      = func(*nodeView) *string
	object    = func(*nodeView) *map[string]any
)

// interfaceSince says which version brought which interface field.
var interfaceSince = map[string]microversion.Version{"network": 20, "storage": 33, "rescue": 38, "bios": 40, "firmware": 86}

func sinceOf(kind string) microversion.Version {
	if v, special := interfaceSince[kind]; special {
		return v
	}
	return 31
}

// nodeOrder is how answers show a node.
var nodeOrder = []string{"uuid", "created_at", "updated_at", "automated_clean", "bios_interface", "boot_interface", "boot_mode", "clean_step",
	"conductor_group", "console_enabled", "console_interface", "disable_power_off", "deploy_interface", "deploy_step", "description",
	"driver", "driver_info", "driver_internal_info", "extra", "fault", "firmware_interface", "health", "inspection_finished_at",
	"inspection_started_at", "inspect_interface", "instance_info", "instance_name", "instance_uuid", "last_error", "lessee", "maintenance",
	"maintenance_reason", "management_interface", "name", "network_data", "network_interface", "owner", "parent_node", "power_interface",
	"power_state", "properties", "protected", "protected_reason", "provision_state", "provision_updated_at", "raid_config", "raid_interface",
	"rescue_interface", "reservation", "resource_class", "retired", "retired_reason", "secure_boot", "service_step", "shard",
	"storage_interface", "target_power_state", "target_provision_state", "target_raid_config", "traits", "vendor_interface", "links",
	"conductor", "allocation_uuid", "chassis_uuid"}

// nodeTable is every field of a node.
var nodeTable = func() *fields.Table[nodeView] {
	str := func(name string, since microversion.Version, at text) nodeField { return fields.Text(name, since, at) }
	dict := func(name string, since microversion.Version, at object) nodeField {
		f := fields.Object(name, since, at)
		f.Put = putText(name, at)
		return f
	}
	computed, said := fields.Computed[nodeView], fields.Said[nodeView]
	list := []nodeField{
		str("uuid", 1, func(n *nodeView) *string { return &n.UUID }).List().Sort(),
		str("name", 1, func(n *nodeView) *string { return &n.Name }).Write().List().Sort(),
		said("allocation_uuid", 52, func(n *nodeView) string { return n.AllocationUUID }),
		fields.Tristate("automated_clean", 47, func(n *nodeView) **bool { return &n.AutomatedClean }).Write().Sort(),
		str("boot_mode", 75, func(n *nodeView) *string { return &n.BootMode }).KeepEmpty(emptyTexts).Post().Max(16).Sort(),
		fields.UUID("chassis_uuid", 1, func(n *nodeView) *string { return &n.ChassisUUID }).Write(),
		computed("clean_step", 7, step(provision.Cleaning, provision.CleanWait, provision.CleanHold)).Of("object"),
		said("conductor", 49, func(n *nodeView) string { return n.owner }),
		str("conductor_group", 46, func(n *nodeView) *string { return &n.ConductorGroup }).Write().TellingNull().NeverNull().Max(maxConductorGroup).Sort(),
		fields.Bool("console_enabled", 1, false, func(n *nodeView) *bool { return &n.ConsoleEnabled }).Post().Sort(),
		fields.Time("created_at", 1, func(n *nodeView) time.Time { return n.CreatedAt }).Sort(),
		computed("deploy_step", 44, step(provision.Deploying, provision.DeployWait, provision.DeployHold)).Of("object"),
		str("description", 51, func(n *nodeView) *string { return &n.Description }).KeepEmpty(emptyTexts).Write().Max(4096).Sort(),
		fields.Bool("disable_power_off", 95, false, func(n *nodeView) *bool { return &n.DisablePowerOff }).KeepNull(emptyTexts).Write().Sort(),
		str("driver", 1, func(n *nodeView) *string { return &n.Driver }).Write().Must().Max(255).Sort(),
		dict("driver_info", 1, func(n *nodeView) *map[string]any { return &n.DriverInfo }).Write().
			Show(guard("driver_info", func(n *nodeView) any {
				if n.driverInfo != nil {
					return n.driverInfo
				}
				return mask(n.DriverInfo)
			})),
		computed("driver_internal_info", 3, guard("driver_internal_info", func(n *nodeView) any { return mask(n.DriverInternalInfo) })).Of("object"),
		dict("extra", 1, func(n *nodeView) *map[string]any { return &n.Extra }).Write(),
		said("fault", 42, func(n *nodeView) string { return n.Fault }).Sort(),
		said("health", 109, func(n *nodeView) string { return n.Health }).Sort(),
		fields.Time("inspection_finished_at", 6, func(n *nodeView) time.Time { return n.Inspected() }).Sort(),
		fields.Time("inspection_started_at", 6, func(n *nodeView) time.Time {
			if n.ProvisionState != provision.Inspecting && n.ProvisionState != provision.InspectWait {
				return time.Time{}
			}
			return n.InspectionStarted
		}).Sort(),
		dict("instance_info", 1, func(n *nodeView) *map[string]any { return &n.InstanceInfo }).Write().
			Show(func(n *nodeView) any {
				if n.instanceInfo != nil {
					return n.instanceInfo
				}
				return maskInstance(n.InstanceInfo)
			}),
		str("instance_name", 104, func(n *nodeView) *string { return &n.InstanceName }).Write().Filled().Max(255).Sort(),
		fields.UUID("instance_uuid", 1, func(n *nodeView) *string { return &n.InstanceUUID }).Write().List().Sort(),
		computed("last_error", 1, guard("last_error", func(n *nodeView) any { return orNull(n.LastError) })).Sort(),
		str("lessee", 65, func(n *nodeView) *string { return &n.Lessee }).KeepEmpty(emptyTexts).Write().Max(255).Sort(),
		maintenance.Write().List().Sort(),
		computed("maintenance_reason", 1, func(n *nodeView) any {
			if n.MaintenanceReason == "" && n.EmptyTexts.Has("maintenance_reason") {
				return ""
			}
			return orNull(n.MaintenanceReason)
		}).Sort(),
		dict("network_data", networkDataSince, func(n *nodeView) *map[string]any { return &n.NetworkData }).Write().Where(checkNetworkData),
		str("owner", 50, func(n *nodeView) *string { return &n.Owner }).KeepEmpty(emptyTexts).Write().Max(255).Sort(),
		str("parent_node", 83, func(n *nodeView) *string { return &n.ParentNode }).KeepEmpty(emptyTexts).Write().Max(36).Sort(),
		said("power_state", 1, func(n *nodeView) string { return n.PowerState }).List().Sort(),
		dict("properties", 1, func(n *nodeView) *map[string]any { return &n.Properties }).Write(),
		fields.Bool("protected", 48, false, func(n *nodeView) *bool { return &n.Protected }).Patch().Sort(),
		str("protected_reason", 48, func(n *nodeView) *string { return &n.ProtectedReason }).KeepEmpty(emptyTexts).Patch().Max(4096).Sort(),
		said("provision_state", 1, visibleState).List().Sort(),
		fields.Time("provision_updated_at", 1, func(n *nodeView) time.Time { return n.ProvisionUpdatedAt }).Sort(),
		computed("raid_config", 12, func(n *nodeView) any { return n.RAIDConfig }).Of("object"),
		computed("reservation", 1, guard("reservation", func(n *nodeView) any { return orNull(n.holder()) })).Sort(),
		str("resource_class", 21, func(n *nodeView) *string { return &n.ResourceClass }).KeepEmpty(emptyTexts).Write().Max(maxResourceClass).Sort(),
		fields.Bool("retired", 61, false, func(n *nodeView) *bool { return &n.Retired }).KeepNull(emptyTexts).Write().Sort(),
		str("retired_reason", 61, func(n *nodeView) *string { return &n.RetiredReason }).KeepEmpty(emptyTexts).Write().Max(4096).Sort(),
		fields.Tristate("secure_boot", 75, func(n *nodeView) **bool { return &n.SecureBoot }).Post().FilledIsYes().Sort(),
		computed("service_step", 87, step(provision.Servicing, provision.ServiceWait, provision.ServiceHold)).Of("object"),
		str("shard", 82, func(n *nodeView) *string { return &n.Shard }).KeepEmpty(emptyTexts).Write().Max(255).Sort(),
		said("target_power_state", 1, func(n *nodeView) string { return n.TargetPowerState }).Sort(),
		said("target_provision_state", 1, func(n *nodeView) string { return string(n.TargetProvisionState) }).Sort(),
		computed("target_raid_config", 12, func(n *nodeView) any { return n.TargetRAIDConfig }).Of("object"),
		computed("traits", 37, func(n *nodeView) any { return n.Traits }).Of("array"),
		fields.Time("updated_at", 1, func(n *nodeView) time.Time { return n.UpdatedAt }).Sort(),
	}
	for i := range list { // these two cannot be written as one line each
		switch list[i].Name {
		case "uuid":
			list[i].CanPost, list[i].Check = true, fields.UUID("uuid", 1, func(n *nodeView) *string { return &n.UUID }).Check
		case "name":
			list[i] = list[i].Where(func(v any) error {
				if v == "" {
					return wire.Invalid("Cannot create node with invalid name ''")
				}
				return nil
			})
			list[i].Since = wire.NameSince
		}
	}
	for _, kind := range node.InterfaceKinds {
		list = append(list, interfaceField(kind))
	}
	return fields.New("node", list...).Singly().Order(nodeOrder...).
		AsAsked("instance_uuid", "maintenance", "power_state", "provision_state", "uuid", "name").Columns(map[string]string{"chassis_id": "chassis_uuid", "conductor_affinity": "id", "version": "id"})
}()

// putText appends an object as it lies in the database where the node has its text.
func putText(name string, at object) func([]byte, *nodeView) []byte {
	return func(b []byte, n *nodeView) []byte {
		text := ""
		switch {
		case n.Texts == nil:
			return wire.AppendValue(b, *at(n))
		case name == "extra":
			text = n.Texts.Extra
		case name == "properties":
			text = n.Texts.Properties
		case name == "network_data":
			text = n.Texts.NetworkData
		}
		return append(b, cmp.Or(text, "{}")...)
	}
}

// emptyTexts are those of a node's texts that are empty and not null, and of its booleans that are null.
func emptyTexts(n *nodeView) fields.Empties { return &n.EmptyTexts }

// maintenance goes through SetMaintenance, which keeps its reason and fault right.
var maintenance = nodeField{Name: "maintenance", Since: 1, Check: fields.CheckBool,
	Get: func(n *nodeView) any { return n.Maintenance },
	Set: func(n *nodeView, v any) {
		on, _ := v.(bool)
		if on != n.Maintenance {
			n.SetMaintenance(on, "")
		}
	},
}

func interfaceField(kind string) nodeField {
	f := fields.Said(kind+"_interface", sinceOf(kind), func(n *nodeView) string { return n.Interfaces[kind] }).Write().Sort()
	f.Check = func(v any) (any, error) {
		if v == "" {
			return nil, wire.Invalid("Could not find the following interface in the 'ironic.hardware.interfaces.%s' entrypoint: . "+
				"Name one, or null for the driver's first.", kind)
		}
		return fields.CheckText(v)
	}
	f.Set = func(n *nodeView, v any) {
		name, _ := v.(string)
		n.Interfaces[kind] = name
	}
	return f
}

// visibleState is the provision state under the name that the version knows; empty: null.
func visibleState(n *nodeView) string {
	switch {
	case n.ProvisionState == provision.Available && n.version < 2:
		return ""
	case n.ProvisionState == provision.InspectWait && n.version < 39:
		return string(provision.Inspecting)
	}
	return string(n.ProvisionState)
}

// step shows the running step while the node is in one of the states.
func step(states ...provision.State) func(*nodeView) any {
	none := map[string]any{}
	return func(n *nodeView) any {
		if n.ObservedStepInfo == "" || !n.ProvisionState.In(states) {
			return none
		}
		shown := map[string]any{}
		if json.Unmarshal([]byte(n.ObservedStepInfo), &shown) != nil {
			return none
		}
		return shown
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
