package api

import (
	"context"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// deployTemplateTable is every field of a deploy template.
var deployTemplateTable = fields.New("deploy template",
	fields.UUID("uuid", 55, func(d *store.DeployTemplate) *string { return &d.UUID }).Post().List().Sort(),
	fields.Text("name", 55, func(d *store.DeployTemplate) *string { return &d.Name }).Write().Must().List().Sort().Where(traitName),
	stepsField("priority", 55, func(d *store.DeployTemplate) *[]store.ListedStep { return &d.Steps }),
	fields.Object("extra", 55, func(d *store.DeployTemplate) *map[string]any { return &d.Extra }).Write(),
	fields.Time("created_at", 55, func(d *store.DeployTemplate) time.Time { return d.CreatedAt }).Sort(),
	fields.Time("updated_at", 55, func(d *store.DeployTemplate) time.Time { return d.UpdatedAt }).Sort(),
).Called("template").Order("uuid", "created_at", "updated_at", "name", "extra", "links", "steps").
	Choices("created_at", "description", "extra", "links", "name", "steps", "updated_at", "uuid")

// dropDescription takes the description from a new template, which is a text and is kept nowhere,
// as in Ironic.
func dropDescription(_ *Request, body map[string]any) error {
	given, named := body["description"]
	if !named {
		return nil
	}
	text, err := fields.CheckText(given)
	if err != nil {
		return wire.Invalid("Schema error for template: %v", err)
	}
	if s, _ := text.(string); len([]rune(s)) > 255 {
		return wire.Invalid("Schema error for template: %s is too long", wire.Repr(s))
	}
	delete(body, "description")
	return nil
}

// traitName admits the name of a trait.
func traitName(v any) error {
	name, _ := v.(string)
	return checkTrait(name)
}

func (s *Server) deployTemplates() Resource {
	const all, one = "deploy_templates", "deploy_templates/{template}"
	c := &collection[store.DeployTemplate]{
		path: all, noun: "Deploy template", another: "A deploy template", item: "template_ident", markers: nameMarker, table: deployTemplateTable, fieldsSince: 55, detailSince: 55, ident: nameOrUUID, bySchema: []string{"sort_dir"},
		store: s.Store, find: s.Store.DeployTemplate,
		page: func(r *Request, p store.Page) ([]*store.DeployTemplate, error) {
			return s.Store.DeployTemplates(r.Context(), p)
		},
		read: (*store.Tx).DeployTemplate, insert: (*store.Tx).InsertDeployTemplate,
		update: (*store.Tx).UpdateDeployTemplate, remove: (*store.Tx).DeleteDeployTemplate,
		fresh: func() *store.DeployTemplate { return &store.DeployTemplate{} },
		id:    func(d *store.DeployTemplate) *string { return &d.UUID },
		body:  dropDescription,
		check: func(_ context.Context, _ *Request, _ *store.Tx, before, d *store.DeployTemplate) (err error) {
			var stored []store.ListedStep
			if before != nil {
				stored = before.Steps
			}
			d.Steps, err = s.sealListed(d.UUID, stored, d.Steps)
			return err
		},
	}
	const late = http.StatusMethodNotAllowed
	return Resource{Name: all, Since: 55, Routes: []Route{
		{Method: http.MethodGet, Path: all, Policy: "baremetal:deploy_template:get", Handle: c.list},
		{Method: http.MethodPost, Path: all, Late: late, Policy: "baremetal:deploy_template:create", Handle: c.create},
		{Method: http.MethodGet, Path: one, Policy: "baremetal:deploy_template:get", Handle: c.show},
		{Method: http.MethodPatch, Path: one, Late: late, Policy: "baremetal:deploy_template:update", Handle: c.change},
		{Method: http.MethodDelete, Path: one, Late: late, Policy: "baremetal:deploy_template:delete", Handle: c.delete},
	}}
}
