package store

import (
	"context"
	"time"
)

// DeployTemplate is a row of deploy_templates: steps that a deployment runs when the
// instance asks for the trait that the template is named after.
type DeployTemplate struct {
	UUID      string
	CreatedAt time.Time
	UpdatedAt time.Time
	Name      string
	Steps     []ListedStep
	Extra     map[string]any
}

var deployTemplates = newTable(table[DeployTemplate]{
	name: "deploy_templates", noun: "deploy template", idents: []string{"name"},
	columns: []column[DeployTemplate]{
		{"uuid", key, func(d *DeployTemplate) any { return &d.UUID }},
		{"created_at", key, func(d *DeployTemplate) any { return &d.CreatedAt }},
		{"updated_at", intent, func(d *DeployTemplate) any { return &d.UpdatedAt }},
		{"name", intent, func(d *DeployTemplate) any { return &d.Name }},
		{"steps", intent, func(d *DeployTemplate) any { return asObject(&d.Steps) }},
		{"extra", intent, func(d *DeployTemplate) any { return asObject(&d.Extra) }},
	},
	sorts:  []string{"updated_at", "name"},
	stamps: func(d *DeployTemplate) (created, updated *time.Time) { return &d.CreatedAt, &d.UpdatedAt },
	value: func(d *DeployTemplate, field string) string {
		return map[string]string{"uuid": d.UUID, "name": d.Name}[field]
	},
})

// templatesNamed reads the templates with the names, in the order of their names.
func templatesNamed(names []string) (string, []any) {
	list, args := inList(1, names)
	return deployTemplates.selectAll + " WHERE t.name IN (" + list + ") ORDER BY t.name", args
}

func init() {
	builders = append(builders, func() []string {
		stmt, _ := templatesNamed([]string{"a", "b"})
		return []string{stmt}
	})
}

// DeployTemplate returns the deploy template with that UUID or name, or ErrNotFound.
func (s *Store) DeployTemplate(ctx context.Context, ident string) (*DeployTemplate, error) {
	return deployTemplates.one(ctx, s.engine, ident, "")
}

// DeployTemplates returns a page of deploy templates, with the errors of Nodes.
func (s *Store) DeployTemplates(ctx context.Context, p Page) ([]*DeployTemplate, error) {
	return deployTemplates.page(ctx, s, filter{}, p)
}

// DeployTemplate returns the deploy template for a write that follows, or ErrNotFound.
func (tx *Tx) DeployTemplate(ctx context.Context, ident string) (*DeployTemplate, error) {
	return deployTemplates.one(ctx, tx.conn, ident, tx.s.lockRows("t"))
}

// DeployTemplatesByNames returns those deploy templates whose name is among names, in
// the order of their names; names that no template has are left out.
func (tx *Tx) DeployTemplatesByNames(ctx context.Context, names []string) ([]*DeployTemplate, error) {
	if len(names) == 0 {
		return nil, nil
	}
	stmt, args := templatesNamed(names)
	return deployTemplates.read(ctx, tx.conn, stmt, args...)
}

// InsertDeployTemplate adds d, or fails with a *DuplicateError (uuid, name).
func (tx *Tx) InsertDeployTemplate(ctx context.Context, d *DeployTemplate) error {
	return deployTemplates.insert(ctx, tx, d)
}

// UpdateDeployTemplate writes all of d, or fails with ErrNotFound or a *DuplicateError.
func (tx *Tx) UpdateDeployTemplate(ctx context.Context, d *DeployTemplate) error {
	return deployTemplates.update(ctx, tx, d)
}

// DeleteDeployTemplate removes d, or fails with ErrNotFound.
func (tx *Tx) DeleteDeployTemplate(ctx context.Context, d *DeployTemplate) error {
	return deployTemplates.remove(ctx, tx, d.UUID)
}
