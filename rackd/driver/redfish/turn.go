package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Turn is a turn at a node's BMC, for the drivers of vendors with more than the standard. It ends when the function returns
// that it was given to.
type Turn struct {
	b *session
	a account
	c *gofish.APIClient
	// System is the node's.
	System *System
}

// Turn runs do at the node's BMC. doing says for errors what is tried. f is nil for calls that only read.
func (d *Driver) Turn(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*Turn) error) error {
	return d.pool.with(ctx, f, n, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		return do(&Turn{b, a, c, s})
	})
}

// Manager is the path of the system's manager. It reads the manager into the value.
func (t *Turn) Manager(into any) (path string, err error) {
	m, err := managerOf(t.c, t.System)
	if err != nil {
		return "", err
	}
	return m.Path, fetch(t.c, m.Path, into)
}

// Read reads a resource.
func (t *Turn) Read(path string, into any) error { return fetch(t.c, path, into) }

// ReadCode is Read with the status of the answer: 202 while a task has not ended. An answer without a body is no error then.
func (t *Turn) ReadCode(path string, into any) (code int, err error) {
	return fetchCode(t.c, path, into)
}

// Allows lists the HTTP methods that a resource allows, nil where the BMC does not say.
func (t *Turn) Allows(path string) ([]string, error) { return verbsOf(t.c, path) }

// Change patches a resource. job is the path of the task that the BMC has made of it, empty for none.
func (t *Turn) Change(path string, body any) (job string, err error) {
	return patch(t.c, makerOf(t.c, t.System), path, body)
}

// Replace puts a resource. job is as in Change.
func (t *Turn) Replace(path string, body any) (job string, err error) {
	return order(t.c, http.MethodPut, path, body)
}

// Order posts to an action. job is as in Change.
func (t *Turn) Order(path string, body any) (job string, err error) {
	return order(t.c, http.MethodPost, path, body)
}

// Call posts to an action that answers with a value.
func (t *Turn) Call(path string, body, into any) error {
	resp, err := t.c.Post(path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("its answer of %s cannot be read: %w", path, err)
	}
	return nil
}

// Session names the session that the turn has at the BMC, empty without one.
func (t *Turn) Session() string { return t.b.id() }

// Knows reports whether the BMC knows a session that it had; of an empty name it does.
func (t *Turn) Knows(session string) (bool, error) {
	gone, err := forgot(t.c, session)
	return !gone, err
}

// Status is the HTTP status of a BMC's refusal, 0 when err is none.
func Status(err error) int { return status(err) }

// Link is a link to a resource.
type Link = ref
