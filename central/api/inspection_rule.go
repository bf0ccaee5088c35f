package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/store"
)

// inspectionRulesSince is the version that brought inspection rules.
const inspectionRulesSince microversion.Version = 96

// maxRulePriority is the highest priority that a rule may have.
const maxRulePriority = 9999

// inspectionRuleTable is every field of an inspection rule.
var inspectionRuleTable = fields.New("inspection rule",
	fields.UUID("uuid", inspectionRulesSince, func(i *store.InspectionRule) *string { return &i.UUID }).Post().List().Sort(),
	fields.Text("description", inspectionRulesSince, func(i *store.InspectionRule) *string { return &i.Description }).KeepEmpty(func(i *store.InspectionRule) fields.Empties { return &i.EmptyTexts }).Write().Max(255).List().Sort(),
	fields.Whole("priority", inspectionRulesSince, 0, maxRulePriority, func(i *store.InspectionRule) *int64 { return &i.Priority }).Write().NotNull().List().Sort(),
	fields.Text("phase", inspectionRulesSince, func(i *store.InspectionRule) *string { return &i.Phase }).Write().NotNull().List().Sort().
		Where(phase),
	fields.Bool("sensitive", inspectionRulesSince, false, func(i *store.InspectionRule) *bool { return &i.Sensitive }).Write().Plain().Sort(),
	ruleList("conditions", func(i *store.InspectionRule) *[]any { return &i.Conditions }, showCondition, func(list []any) error { _, err := inspection.Parse(list, nil); return err }),
	ruleList("actions", func(i *store.InspectionRule) *[]any { return &i.Actions }, showAction, func(list []any) error { _, err := inspection.Parse(nil, list); return err }).Must(),
	fields.Time("created_at", inspectionRulesSince, func(i *store.InspectionRule) time.Time { return i.CreatedAt }).Sort(),
	fields.Time("updated_at", inspectionRulesSince, func(i *store.InspectionRule) time.Time { return i.UpdatedAt }).Sort(),
).Called("").Order("uuid", "created_at", "updated_at", "description", "priority", "sensitive", "phase", "conditions", "actions").
	Columns(map[string]string{"scope": "id"})

// phase admits the phase that rules have.
func phase(v any) error {
	if v == inspection.Main {
		return nil
	}
	return wire.Invalid("Invalid phase: %.80s. Valid phases are: %s", v, inspection.Main)
}

// ruleList is the conditions or actions of a rule, which answers hide where the rule is
// sensitive. What their arguments are is checked together (checkInspectionRule).
func ruleList(name string, at func(*store.InspectionRule) *[]any, show func(any) any, parse func([]any) error) fields.Field[store.InspectionRule] {
	return fields.Field[store.InspectionRule]{Name: name, Since: inspectionRulesSince, Type: "array",
		Get: func(i *store.InspectionRule) any {
			if i.Sensitive {
				return nil
			}
			out := make([]any, len(*at(i)))
			for n, item := range *at(i) {
				out[n] = show(item)
			}
			return out
		},
		Stored: func(i *store.InspectionRule) any { return slices.Clone(*at(i)) },
		Set:    func(i *store.InspectionRule, v any) { *at(i), _ = v.([]any) },
		Check: func(v any) (any, error) {
			list, isList := v.([]any)
			if !isList && v != nil {
				return nil, fmt.Errorf("%s is not of type 'array'", wire.Repr(v))
			}
			if isList && len(list) == 0 && name == "actions" {
				return nil, errors.New("[] should be non-empty")
			}
			if form, bad := errors.AsType[*inspection.FormError](parse(list)); bad {
				return nil, fields.Inside(form.Where, errors.New(form.Text))
			}
			return v, nil
		},
	}.Write().NotNull()
}

func showCondition(v any) any {
	m, _ := v.(map[string]any)
	out := wire.Members{"op", m["op"], "args", m["args"]}
	if looped(m["loop"]) {
		multiple := m["multiple"]
		if multiple == nil {
			multiple = "any"
		}
		out = append(out, "loop", m["loop"], "multiple", multiple)
	}
	return out
}

func showAction(v any) any {
	m, _ := v.(map[string]any)
	out := wire.Members{"op", m["op"], "args", m["args"]}
	if looped(m["loop"]) {
		out = append(out, "loop", m["loop"])
	}
	return out
}

func looped(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

func (s *Server) inspectionRules() Resource {
	const all, one, late = "inspection_rules", "inspection_rules/{rule}", http.StatusMethodNotAllowed
	c := s.inspectionRuleCollection()
	return Resource{Name: all, Since: inspectionRulesSince, Routes: []Route{
		{Method: http.MethodGet, Path: all, Policy: "baremetal:inspection_rule:get", Handle: c.list},
		{Method: http.MethodPost, Path: all, Late: late, Policy: "baremetal:inspection_rule:create", Handle: c.create},
		{Method: http.MethodDelete, Path: all, Summary: "Delete all inspection rules", Late: late, Policy: "baremetal:inspection_rule:delete", Handle: s.deleteInspectionRules},
		{Method: http.MethodGet, Path: one, Policy: "baremetal:inspection_rule:get", Handle: c.show},
		{Method: http.MethodPatch, Path: one, Late: late, Policy: "baremetal:inspection_rule:update", Handle: c.change},
		{Method: http.MethodDelete, Path: one, Late: late, Policy: "baremetal:inspection_rule:delete", Handle: c.delete},
	}}
}

func (s *Server) inspectionRuleCollection() *collection[store.InspectionRule] {
	return &collection[store.InspectionRule]{
		path: "inspection_rules", noun: "Rule", another: "A rule", item: "inspection_rule_uuid", pathBySchema: []string{http.MethodGet, http.MethodDelete}, markers: anyMarker, table: inspectionRuleTable, fieldsSince: inspectionRulesSince, detailSince: inspectionRulesSince, bySchema: []string{"sort_dir"},
		filters: map[string]microversion.Version{"phase": inspectionRulesSince},
		store:   s.Store, find: s.Store.InspectionRule,
		page: func(r *Request, p store.Page) ([]*store.InspectionRule, error) {
			return s.Store.InspectionRules(r.Context(), store.InspectionRuleQuery{Page: p, Phase: r.Query["phase"]})
		},
		read: (*store.Tx).InspectionRule, insert: (*store.Tx).InsertInspectionRule,
		update: (*store.Tx).UpdateInspectionRule, remove: (*store.Tx).DeleteInspectionRule,
		fresh: func() *store.InspectionRule { return &store.InspectionRule{} },
		id:    func(i *store.InspectionRule) *string { return &i.UUID },
		check: checkInspectionRule,
	}
}

// checkInspectionRule admits a rule that can be applied.
func checkInspectionRule(_ context.Context, _ *Request, _ *store.Tx, before, i *store.InspectionRule) error {
	if i.Phase == "" {
		i.Phase = inspection.Main
	}
	if before != nil && before.Sensitive && !i.Sensitive {
		return wire.Invalid("Inspection rules cannot have the sensitive flag unset.")
	}
	_, err := inspection.Parse(i.Conditions, i.Actions)
	if err != nil {
		return wire.Invalid("Validation failed for inspection rule: %v", err)
	}
	return nil
}

// deleteInspectionRules removes all rules.
func (s *Server) deleteInspectionRules(r *Request) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	err := s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.DeleteInspectionRules(ctx) })
	if err != nil {
		return Reply{}, storeError(err)
	}
	return noContent()
}
