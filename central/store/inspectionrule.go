package store

import (
	"context"
	"time"
)

// InspectionRule is a row of inspection_rules: what is to be done with a node whose
// inspection has found something. Conditions and Actions are JSON lists that package
// inspection reads.
type InspectionRule struct {
	UUID        string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	EmptyTexts  EmptyTexts
	Description string
	Priority    int64 // the highest comes first
	Sensitive   bool  // answers do not show conditions and actions
	Phase       string
	Conditions  []any
	Actions     []any
}

// InspectionRuleQuery filters inspection rules. An empty filter does not filter.
type InspectionRuleQuery struct {
	Page
	Phase string
}

var inspectionRules = newTable(table[InspectionRule]{
	name: "inspection_rules", noun: "inspection rule",
	columns: []column[InspectionRule]{
		{"uuid", key, func(r *InspectionRule) any { return &r.UUID }},
		{"created_at", key, func(r *InspectionRule) any { return &r.CreatedAt }},
		{"updated_at", intent, func(r *InspectionRule) any { return &r.UpdatedAt }},
		{"empty_texts", intent, func(r *InspectionRule) any { return (*string)(&r.EmptyTexts) }},
		{"description", intent, func(r *InspectionRule) any { return &r.Description }},
		{"priority", intent, func(r *InspectionRule) any { return &r.Priority }},
		{"sensitive", intent, func(r *InspectionRule) any { return &r.Sensitive }},
		{"phase", intent, func(r *InspectionRule) any { return &r.Phase }},
		{"conditions", intent, func(r *InspectionRule) any { return asObject(&r.Conditions) }},
		{"actions", intent, func(r *InspectionRule) any { return asObject(&r.Actions) }},
	},
	sorts:   []string{"updated_at", "description", "priority", "sensitive", "phase"},
	filters: InspectionRuleQuery{Phase: "p"}.narrow,
	stamps:  func(r *InspectionRule) (created, updated *time.Time) { return &r.CreatedAt, &r.UpdatedAt },
	value:   func(r *InspectionRule, _ string) string { return r.UUID },
})

func (q InspectionRuleQuery) narrow(f *filter) { f.equal("t.phase", q.Phase) }

var selectRulesInOrder = register(inspectionRules.selectAll + " ORDER BY t.priority DESC, t.created_at, t.uuid")

// InspectionRule returns the inspection rule with that UUID, or ErrNotFound.
func (s *Store) InspectionRule(ctx context.Context, id string) (*InspectionRule, error) {
	return inspectionRules.one(ctx, s.engine, id, "")
}

// InspectionRules returns a page of inspection rules, with the errors of Nodes.
func (s *Store) InspectionRules(ctx context.Context, q InspectionRuleQuery) ([]*InspectionRule, error) {
	var f filter
	q.narrow(&f)
	return inspectionRules.page(ctx, s, f, q.Page)
}

// InspectionRules returns all inspection rules in the order in which they are applied.
func (tx *Tx) InspectionRules(ctx context.Context) ([]*InspectionRule, error) {
	return inspectionRules.read(ctx, tx.conn, selectRulesInOrder)
}

// InspectionRule returns the inspection rule for a write that follows, or ErrNotFound.
func (tx *Tx) InspectionRule(ctx context.Context, id string) (*InspectionRule, error) {
	return inspectionRules.one(ctx, tx.conn, id, tx.s.lockRows("t"))
}

// InsertInspectionRule adds r, or fails with a *DuplicateError (uuid).
func (tx *Tx) InsertInspectionRule(ctx context.Context, r *InspectionRule) error {
	return inspectionRules.insert(ctx, tx, r)
}

// UpdateInspectionRule writes all of r, or fails with ErrNotFound.
func (tx *Tx) UpdateInspectionRule(ctx context.Context, r *InspectionRule) error {
	return inspectionRules.update(ctx, tx, r)
}

// DeleteInspectionRule removes r, or fails with ErrNotFound.
func (tx *Tx) DeleteInspectionRule(ctx context.Context, r *InspectionRule) error {
	return inspectionRules.remove(ctx, tx, r.UUID)
}

// DeleteInspectionRules removes all inspection rules.
func (tx *Tx) DeleteInspectionRules(ctx context.Context) error {
	list, err := tx.InspectionRules(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := tx.DeleteInspectionRule(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
