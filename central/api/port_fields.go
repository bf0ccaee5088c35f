package api

import (
	"fmt"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// portTable is every field of a port.
var portTable = fields.New("port",
	fields.UUID("uuid", 1, func(p *store.Port) *string { return &p.UUID }).Post().List().Sort(),
	macAddress(1, func(p *store.Port) *string { return &p.Address }).Write().Must().List().Sort(),
	fields.Bool("available_for_dynamic_portgroup", 111, true, func(p *store.Port) *bool { return &p.AvailableForDynamicPortgroup }).Write().Early(fields.Patching).Plain().NotNull().Sort(),
	fields.Text("category", 101, func(p *store.Port) *string { return &p.Category }).KeepEmpty(func(p *store.Port) fields.Empties { return &p.EmptyTexts }).Write().Early(fields.Patching).Max(80).Sort(),
	fields.Time("created_at", 1, func(p *store.Port) time.Time { return p.CreatedAt }).Sort(),
	fields.Text("description", 97, func(p *store.Port) *string { return &p.Description }).KeepEmpty(func(p *store.Port) fields.Empties { return &p.EmptyTexts }).Write().Early(fields.Patching).Max(255).Sort(),
	fields.Object("extra", 1, func(p *store.Port) *map[string]any { return &p.Extra }).Write(),
	fields.Computed("internal_info", 18, func(p *store.Port) any { return mask(p.InternalInfo) }),
	fields.Bool("is_smartnic", 53, false, func(p *store.Port) *bool { return &p.IsSmartNIC }).KeepNull(func(p *store.Port) fields.Empties { return &p.EmptyTexts }).Write().Sort(),
	fields.Object("local_link_connection", 19, func(p *store.Port) *map[string]any { return &p.LocalLinkConnection }).Write().Where(checkLink),
	fields.Text("name", 88, func(p *store.Port) *string { return &p.Name }).KeepEmpty(func(p *store.Port) fields.Empties { return &p.EmptyTexts }).Write().Early(fields.Patching).Max(255).Sort(),
	fields.UUID("node_uuid", 1, func(p *store.Port) *string { return &p.Node }).Write().Must().Keep(), // which belongs to a node always
	fields.Text("physical_network", 34, func(p *store.Port) *string { return &p.PhysicalNetwork }).Write().Max(64).Where(notEmpty).Sort(),
	fields.UUID("portgroup_uuid", 24, func(p *store.Port) *string { return &p.PortgroupUUID }).Write(),
	fields.Bool("pxe_enabled", 19, true, func(p *store.Port) *bool { return &p.PXEEnabled }).Write().Sort(),
	fields.Time("updated_at", 1, func(p *store.Port) time.Time { return p.UpdatedAt }).Sort(),
	fields.Text("vendor", 100, func(p *store.Port) *string { return &p.Vendor }).KeepEmpty(func(p *store.Port) fields.Empties { return &p.EmptyTexts }).Write().Early(fields.Patching).Max(32).Sort(),
).Strict().Later("name", "description", "vendor", "category", "available_for_dynamic_portgroup").Order("uuid", "created_at", "updated_at", "address", "extra", "internal_info", "is_smartnic", "local_link_connection",
	"physical_network", "pxe_enabled", "node_uuid", "name", "description", "vendor", "category", "available_for_dynamic_portgroup", "links",
	"portgroup_uuid").Columns(map[string]string{"node_id": "node", "portgroup_id": "portgroup_uuid"})

// macAddress is a field "address" that holds a MAC address in lower case.
func macAddress[T any](since microversion.Version, at func(*T) *string) fields.Field[T] {
	f := fields.Text("address", since, at)
	f.Check = func(v any) (any, error) {
		if v == nil {
			return nil, nil
		}
		s, isText := v.(string)
		if !isText {
			return nil, fmt.Errorf("%s is not of type 'string', 'null'", wire.Repr(v))
		}
		mac, valid := wire.MAC(s)
		if !valid {
			return nil, fields.Unreadable("Expected valid MAC address for address: %.40s", s)
		}
		return mac, nil
	}
	return f
}

// notEmpty refuses an empty text, which null is for.
func notEmpty(v any) error {
	if v == "" {
		return wire.Invalid("A non-empty value is required when setting physical_network")
	}
	return nil
}
