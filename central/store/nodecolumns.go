package store

import "time"

// nodeColumns is the nodes table in the order in which it is read.
var nodeColumns = []column[Node]{
	{"uuid", key, func(n *Node) any { return &n.UUID }},
	{"created_at", key, func(n *Node) any { return &n.CreatedAt }},
	{"traits", key, func(n *Node) any { return (*traitList)(&n.Traits) }},

	{"updated_at", intent, func(n *Node) any { return &n.UpdatedAt }},
	{"name", intent, func(n *Node) any { return &n.Name }},
	{"driver", intent, func(n *Node) any { return &n.Driver }},
	{"conductor_group", intent, func(n *Node) any { return &n.ConductorGroup }},
	{"resource_class", intent, func(n *Node) any { return &n.ResourceClass }},
	{"owner", intent, func(n *Node) any { return &n.Owner }},
	{"lessee", intent, func(n *Node) any { return &n.Lessee }},
	{"lent_to", intent, func(n *Node) any { return &n.LentTo }},
	{"description", intent, func(n *Node) any { return &n.Description }},
	{"shard", intent, func(n *Node) any { return &n.Shard }},
	{"parent_node", intent, func(n *Node) any { return &n.ParentNode }},
	{"chassis_uuid", intent, func(n *Node) any { return &n.ChassisUUID }},
	{"allocation_uuid", intent, func(n *Node) any { return &n.AllocationUUID }},
	{"instance_uuid", intent, func(n *Node) any { return &n.InstanceUUID }},
	{"instance_name", intent, func(n *Node) any { return &n.InstanceName }},
	{"interfaces", intent, func(n *Node) any { return &n.Interfaces }},
	{"driver_info", intent, func(n *Node) any { return &n.DriverInfo }},
	{"properties", intent, func(n *Node) any { return &n.Properties }},
	{"instance_info", intent, func(n *Node) any { return &n.InstanceInfo }},
	{"extra", intent, func(n *Node) any { return &n.Extra }},
	{"network_data", intent, func(n *Node) any { return &n.NetworkData }},
	{"target_raid_config", intent, func(n *Node) any { return &n.TargetRAIDConfig }},
	{"automated_clean", intent, func(n *Node) any { return &n.AutomatedClean }},
	{"disable_power_off", intent, func(n *Node) any { return &n.DisablePowerOff }},
	{"protected", intent, func(n *Node) any { return &n.Protected }},
	{"protected_reason", intent, func(n *Node) any { return &n.ProtectedReason }},
	{"retired", intent, func(n *Node) any { return &n.Retired }},
	{"retired_reason", intent, func(n *Node) any { return &n.RetiredReason }},
	{"empty_texts", intent, func(n *Node) any { return (*string)(&n.EmptyTexts) }},
	{"maintenance_set", intent, func(n *Node) any { return &n.MaintenanceSet }},
	{"maintenance_why", intent, func(n *Node) any { return &n.MaintenanceWhy }},
	{"fault_acked", intent, func(n *Node) any { return &n.FaultAcked }},
	{"generation", intent, func(n *Node) any { return &n.Generation }},
	{"accepted_state", intent, func(n *Node) any { return &n.AcceptedState }},
	{"accepted_target", intent, func(n *Node) any { return &n.AcceptedTarget }},
	{"accepted_at", intent, func(n *Node) any { return &n.AcceptedAt }},
	{"accepted_error", intent, func(n *Node) any { return &n.AcceptedError }},
	{"power_generation", intent, func(n *Node) any { return &n.PowerGeneration }},
	{"power_target", intent, func(n *Node) any { return &n.PowerTarget }},
	{"inspection_started_at", intent, func(n *Node) any { return &n.InspectionStarted }},
	{"rack_revision", intent, func(n *Node) any { return &n.RackRevision }},

	{"observed_generation", hot, func(n *Node) any { return &n.ObservedGeneration }},
	{"observed_epoch", hot, func(n *Node) any { return &n.ObservedEpoch }},
	{"observed_seq", hot, func(n *Node) any { return &n.ObservedSeq }},
	{"observed_site", hot, func(n *Node) any { return &n.ObservedSite }},
	{"observed_place", hot, func(n *Node) any { return &n.ObservedPlace }},
	{"observed_stored", hot, func(n *Node) any { return &n.ObservedStored }},
	{"observed_state", hot, func(n *Node) any { return &n.ObservedState }},
	{"observed_target", hot, func(n *Node) any { return &n.ObservedTarget }},
	{"observed_at", hot, func(n *Node) any { return &n.ObservedAt }},
	{"observed_error", hot, func(n *Node) any { return &n.ObservedError }},
	{"observed_step", hot, func(n *Node) any { return &n.ObservedStep }},
	{"observed_step_info", hot, func(n *Node) any { return &n.ObservedStepInfo }},
	{"observed_owner", hot, func(n *Node) any { return &n.ObservedOwner }},
	{"power_state", hot, func(n *Node) any { return &n.PowerState }},
	{"power_at", hot, func(n *Node) any { return &n.PowerAt }},
	{"power_observed_generation", hot, func(n *Node) any { return &n.PowerObservedGeneration }},
	{"fault_number", hot, func(n *Node) any { return &n.FaultNumber }},
	{"observed_fault", hot, func(n *Node) any { return &n.ObservedFault }},
	{"fault_why", hot, func(n *Node) any { return &n.FaultWhy }},
	{"inspection_finished_at", hot, func(n *Node) any { return &n.InspectionFinished }},

	{"driver_internal_info", observed, func(n *Node) any { return &n.DriverInternalInfo }},
	{"raid_config", observed, func(n *Node) any { return &n.RAIDConfig }},
	{"console_enabled", observed, func(n *Node) any { return &n.ConsoleEnabled }},
	{"boot_mode", observed, func(n *Node) any { return &n.BootMode }},
	{"secure_boot", observed, func(n *Node) any { return &n.SecureBoot }},
	{"health", observed, func(n *Node) any { return &n.Health }},

	{"provision_state", effective, func(n *Node) any { return &n.ProvisionState }},
	{"target_provision_state", effective, func(n *Node) any { return &n.TargetProvisionState }},
	{"provision_updated_at", effective, func(n *Node) any { return &n.ProvisionUpdatedAt }},
	{"last_error", effective, func(n *Node) any { return &n.LastError }},
	{"target_power_state", effective, func(n *Node) any { return &n.TargetPowerState }},
	{"maintenance", effective, func(n *Node) any { return &n.Maintenance }},
	{"maintenance_reason", effective, func(n *Node) any { return &n.MaintenanceReason }},
	{"fault", effective, func(n *Node) any { return &n.Fault }},
}

// hotType is the SQL type of a hot column, which a VALUES list has to be told.
func hotType(c column[Node]) string {
	switch c.field(new(Node)).(type) {
	case *int64, *uint64, *time.Time:
		return "BIGINT"
	}
	return "TEXT"
}

// nodeSorts are the columns that a list may be sorted by; API names are the same.
var nodeSorts = func() map[string]bool {
	m := map[string]bool{"revision": false}
	for _, c := range nodeColumns {
		switch c.field(new(Node)).(type) {
		case *map[string]any, *map[string]string, **bool, *traitList:
		default:
			m[c.name] = true
		}
	}
	for _, hidden := range []string{"accepted_state", "accepted_target", "accepted_at", "accepted_error", "generation",
		"power_generation", "power_target", "maintenance_set", "maintenance_why", "fault_acked", "power_at",
		"power_observed_generation", "fault_number", "fault_why", "rack_revision", "lent_to", "empty_texts"} {
		delete(m, hidden)
	}
	for k := range m {
		if len(k) > 9 && k[:9] == "observed_" {
			delete(m, k)
		}
	}
	return m
}()
