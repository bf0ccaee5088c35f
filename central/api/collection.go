package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// collection is a resource whose requests differ from those of others by its fields
// and a few rules only: list, show, create, change and delete.
type collection[T any] struct {
	// path is below /v1 and the key of lists, noun what errors call an item.
	path, noun string
	// another is an item as one says that it is there already: "A volume target".
	another string
	table   *fields.Table[T]
	// fieldsSince and detailSince are the versions that brought the arguments.
	fieldsSince, detailSince microversion.Version
	// plain: lists show whole items, there is no argument detail.
	plain bool
	// ident checks how a request names an item; nil: by UUID only.
	ident func(r *Request, ident string) (string, error)
	// filters are the arguments that filter lists, with the version that brought each.
	filters map[string]microversion.Version

	store *store.Store
	find  func(ctx context.Context, ident string) (*T, error)
	page  func(r *Request, p store.Page) ([]*T, error)
	// The store's methods, inside of a transaction.
	read                   func(tx *store.Tx, ctx context.Context, ident string) (*T, error)
	insert, update, remove func(tx *store.Tx, ctx context.Context, item *T) error

	// fresh returns an item with its defaults; id points to its UUID.
	fresh func() *T
	id    func(*T) *string
	// item is what errors call the part of the path that names an item.
	item string
	// bySchema are the arguments of lists that Ironic checks by a schema, and refuses in its words.
	bySchema []string
	// stamps: a PATCH that changes nothing moves updated_at all the same, as Ironic's of a chassis.
	stamps bool
	// node is the UUID of the node that an item belongs to: a PATCH that changes nothing moves
	// the node's updated_at all the same, as in Ironic, which locks it; nil: items have none.
	node func(*T) string
	// misnamed says that a path names an item by what can be none's name; nil: the usual words.
	misnamed func(ident string) error
	// pathBySchema are the methods for which Ironic checks UUIDs in the path by a schema.
	pathBySchema []string
	// markers says what a marker may be.
	markers markerForm
	// marker is what "next" links name an item by; nil: its UUID.
	marker func(*T) string
	// body may change a POST's body before its fields are read; nil: nothing to do.
	body func(r *Request, body map[string]any) error
	// parsePatch reads the operations of a PATCH; nil: patch.Parse does.
	parsePatch func(body any) ([]patch.Op, error)
	// mayPatch refuses a PATCH by the fields that it names, changed or not; nil: nothing.
	mayPatch func(r *Request, ops []patch.Op, item *T) error
	// relink resolves the node that a PATCH moves an item to; nil: items have none.
	relink func(ctx context.Context, r *Request, tx *store.Tx, ops []patch.Op, item *T) ([]patch.Op, error)
	// found says whether a new item has something to belong to; nil: it need not.
	found func(r *Request, item *T) error
	// check says what the fields cannot check alone. before is nil for a new item.
	check func(ctx context.Context, r *Request, tx *store.Tx, before, item *T) error
	// mayRemove says what speaks against removing an item; nil: nothing.
	mayRemove func(ctx context.Context, r *Request, tx *store.Tx, item *T) error
	// begin is what a PATCH does to an item before its operations; nil: nothing.
	begin func(ops []patch.Op, item *T)
	// shown is what a request sees of an item that is there already; nil: all of it.
	shown func(r *Request, item *T) *T
	// more appends what a whole item shows besides its fields and links; nil: nothing.
	more func(b []byte, r *Request, item *T) []byte
}

func (c *collection[T]) missing(ident string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return wire.Errorf(http.StatusNotFound, "%s %.255s could not be found.", c.noun, ident)
	}
	return c.refusal(err)
}

// refusal is storeError where a duplicate is one of this collection's items.
func (c *collection[T]) refusal(err error) error {
	if e, ok := errors.AsType[*store.DuplicateError](err); ok {
		return conflict("%s with %s already exists.", c.another, claimed(e))
	}
	return storeError(err)
}

// claimed says what only one item may have.
func claimed(e *store.DuplicateError) string {
	switch e.Field {
	case "uuid":
		return "UUID " + e.Value
	case "address":
		return "MAC address " + e.Value
	case "connector_id":
		kind, id, _ := strings.Cut(e.Value, " ")
		return "type " + kind + " and connector ID " + id
	case "boot_index":
		return "boot index '" + e.Value + "' for the same node"
	}
	return strings.ReplaceAll(e.Field, "_", " ") + " " + e.Value
}

// below returns c as it is listed below another resource: with the items that page gives.
func (c *collection[T]) below(page func(*Request, store.Page) ([]*T, error)) *collection[T] {
	nested := *c
	nested.page = page
	return &nested
}

// named checks the item that the path names.
func (c *collection[T]) named(r *Request) (string, error) {
	ident := r.Param(0)
	if c.ident != nil {
		checked, err := c.ident(r, ident)
		switch {
		case err == nil:
			return checked, nil
		case c.misnamed != nil:
			return "", c.misnamed(ident)
		}
		return "", wire.Invalid("Expected UUID or name for %s: %.80s", c.item, ident)
	}
	id, ok := wire.UUID(ident)
	switch {
	case ok:
		return id, nil
	case slices.Contains(c.pathBySchema, r.Method):
		return "", schemaError(ident, "is not a 'uuid'")
	}
	return "", wire.Invalid("Expected UUID for %s: %.80s", c.item, ident)
}

// nameOrUUID admits both, for collections whose items have names.
func nameOrUUID(r *Request, ident string) (string, error) {
	if id, ok := wire.UUID(ident); ok {
		return id, nil
	}
	if !wire.Logical(ident) {
		return "", notLogical(ident)
	}
	return ident, nil
}

func notLogical(ident string) error {
	return wire.Invalid("Expected a logical name or UUID but received %.80s.", ident)
}

func (c *collection[T]) append(b []byte, r *Request, sel fields.Selection, item *T) []byte {
	if c.shown != nil {
		item = c.shown(r, item)
	}
	return c.appendWhole(b, r, sel, item)
}

// appendWhole appends an item as who has just made it sees it, who knows what is in it.
func (c *collection[T]) appendWhole(b []byte, r *Request, sel fields.Selection, item *T) []byte {
	b = c.table.AppendLinked(append(b, '{'), sel, item, r.Base, c.path, "/", *c.id(item))
	if c.more != nil && (!sel.Chosen || sel.Below) {
		b = c.more(b, r, item)
	}
	return append(b, '}')
}

func (c *collection[T]) list(r *Request) (Reply, error) {
	allowed := c.arguments("fields")
	if !c.plain {
		allowed = append(allowed, "detail")
	}
	if err := r.Query.Allow(allowed...); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, c.table, c.plain, c.fieldsSince, c.detailSince)
	if err != nil {
		return Reply{}, err
	}
	return c.answerPage(r, sel, r.listPath())
}

// listDetail is the older form of list with detail=True.
func (c *collection[T]) listDetail(r *Request) (Reply, error) {
	if err := r.Query.Allow(c.arguments()...); err != nil {
		return Reply{}, err
	}
	return c.answerPage(r, c.table.All(r.Version), r.listPath())
}

func (c *collection[T]) arguments(more ...string) []string {
	names := append(more, wire.PageArguments...)
	for name := range c.filters {
		names = append(names, name)
	}
	return names
}

func (c *collection[T]) answerPage(r *Request, sel fields.Selection, path string) (Reply, error) {
	p, err := r.Query.Page("id")
	if slices.Contains(c.bySchema, "sort_dir") {
		err = cmp.Or(orderBySchema(r), err)
	}
	if err != nil {
		return Reply{}, err
	}
	for name, since := range c.filters {
		_, given := r.Query[name]
		switch {
		case !given || r.Version >= since:
		case name == "shard":
			return Reply{}, newFilter(name, since)
		default:
			return Reply{}, wire.NotAcceptable("The argument "+name, since)
		}
	}
	if err := c.table.CheckSort(r.Version, p.SortKey); err != nil {
		return Reply{}, err
	}
	q := store.Page{Limit: p.Limit, SortKey: c.table.Column(p.SortKey), Desc: p.Desc, Project: r.Scope()}
	if err := c.checkMarker(r); err != nil {
		return Reply{}, err
	}
	if p.Marker != "" {
		last, err := c.find(r.Context(), p.Marker)
		if err != nil {
			return Reply{}, c.missing(p.Marker, err)
		}
		q.Marker = *c.id(last)
	}
	items, err := c.page(r, q)
	if err != nil {
		return Reply{}, c.refusal(err)
	}
	b := append(make([]byte, 0, 128+len(items)*512), `{"`...)
	b = append(append(b, lastPart(c.path)...), `":[`...)
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.append(b, r, sel, item)
	}
	b = append(b, ']')
	if len(items) == p.Limit {
		last := items[len(items)-1]
		marker := *c.id(last)
		if c.marker != nil {
			marker = c.marker(last)
		}
		b = wire.AppendString(wire.AppendName(b, "next"), nextLink(r, c.table, sel, c.fieldsSince, path, p, marker))
	}
	return ok(append(b, '}'))
}

// orderBySchema refuses a sort_dir that is none, where Ironic describes it by a schema.
func orderBySchema(r *Request) error {
	if dir, given := r.Query["sort_dir"]; given && dir != "asc" && dir != "desc" {
		return schemaError(dir, "is not one of ['asc', 'desc']")
	}
	return nil
}

// schemaError is how Ironic refuses the value of an argument that a schema describes.
func schemaError(value, format string, args ...any) error {
	if len(value) > 80 {
		value = value[:80]
	}
	return wire.Invalid("Schema error: %s "+format, append([]any{wire.Repr(value)}, args...)...)
}

// markerForm says what a marker may be, and with which words it is refused.
type markerForm int

const (
	uuidMarker markerForm = iota // a UUID
	nameMarker                   // the name of an item, or its UUID
	anyMarker                    // anything: what is no item's is not found
)

// checkMarker refuses a marker that can be no item's.
func (c *collection[T]) checkMarker(r *Request) error {
	marker, given := r.Query["marker"]
	_, isUUID := wire.UUID(marker)
	switch {
	case !given || isUUID || c.markers == anyMarker || c.markers == nameMarker && wire.Logical(marker):
		return nil
	case slices.Contains(c.bySchema, "marker"):
		return schemaError(marker, "is not a 'uuid'")
	case c.markers == nameMarker:
		return wire.Invalid("Expected name for marker: %.80s", marker)
	}
	return wire.Invalid("Expected UUID for marker: %.80s", marker)
}

// lastPart is what a list is called: "connectors" of "volume/connectors".
func lastPart(path string) string {
	parts := split(path)
	return parts[len(parts)-1]
}

func (c *collection[T]) show(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields"); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, c.table, true, c.fieldsSince, c.detailSince)
	if err != nil {
		return Reply{}, err
	}
	ident, err := c.named(r)
	if err != nil {
		return Reply{}, err
	}
	item, err := c.find(r.Context(), ident)
	if err != nil {
		return Reply{}, c.missing(ident, err)
	}
	return ok(c.append(nil, r, sel, item))
}

func (c *collection[T]) create(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	if c.body != nil {
		if err := c.body(r, body); err != nil {
			return Reply{}, err
		}
	}
	made := c.fresh()
	var found func(*T) error
	if c.found != nil {
		found = func(item *T) error { return c.found(r, item) }
	}
	if err := c.table.CreateBelow(r.Version, body, made, found); err != nil {
		return Reply{}, err
	}
	if id := c.id(made); *id == "" {
		*id = store.NewID()
	}
	asked := *made
	err = c.store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		*made = asked // each attempt anew
		if c.check != nil {
			if err := c.check(ctx, r, tx, nil, made); err != nil {
				return err
			}
		}
		return c.insert(tx, ctx, made)
	})
	if err != nil {
		return Reply{}, c.refusal(err)
	}
	return Reply{Status: http.StatusCreated, Location: r.Base + "/v1/" + c.path + "/" + *c.id(made),
		Body: c.appendWhole(nil, r, c.table.All(r.Version), made)}, nil
}

func (c *collection[T]) change(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	ident, err := c.named(r)
	if err != nil {
		return Reply{}, err
	}
	parse := patch.Parse
	if c.parsePatch != nil {
		parse = c.parsePatch
	}
	ops, err := readPatch(r, parse)
	if err != nil {
		return Reply{}, err
	}
	var changed *T
	err = c.store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		item, err := c.read(tx, ctx, ident)
		if err != nil {
			return c.missing(ident, err)
		}
		if c.mayPatch != nil {
			if err := c.mayPatch(r, ops, item); err != nil {
				return err
			}
		}
		ops := ops
		if c.relink != nil {
			if ops, err = c.relink(ctx, r, tx, ops, item); err != nil {
				return err
			}
		}
		before := *item
		if c.begin != nil {
			c.begin(ops, item)
		}
		if _, err := c.table.Update(r.Version, ops, item); err != nil {
			return err
		}
		if c.check != nil {
			if err := c.check(ctx, r, tx, &before, item); err != nil {
				return err
			}
		}
		changed = item
		switch same := c.table.Same(&before, item); {
		case same && c.node != nil:
			return tx.Touch(ctx, c.node(item))
		case same && !c.stamps:
			return nil
		}
		return c.update(tx, ctx, item)
	})
	if err != nil {
		return Reply{}, c.refusal(err)
	}
	return ok(c.append(nil, r, c.table.All(r.Version), changed))
}

func (c *collection[T]) delete(r *Request) (Reply, error) {
	if err := r.noArguments(); err != nil {
		return Reply{}, err
	}
	ident, err := c.named(r)
	if err != nil {
		return Reply{}, err
	}
	err = c.store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		item, err := c.read(tx, ctx, ident)
		if err != nil {
			return c.missing(ident, err)
		}
		if c.mayRemove != nil {
			if err := c.mayRemove(ctx, r, tx, item); err != nil {
				return err
			}
		}
		return c.remove(tx, ctx, item)
	})
	if err != nil {
		return Reply{}, c.refusal(err)
	}
	return noContent()
}
