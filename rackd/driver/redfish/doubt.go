package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
)

// An order that must not be given twice is saved before it is given. A rackd that does not know
// whether the BMC took it looks for its traces: a task that was not there before, and the effect.
// It looks this often, jobPoll apart, and then fails. It never gives the order again.
const looks = 12

// most is how many tasks of a BMC are remembered. A BMC with more is one whose tasks tell nothing.
const most = 256

// ordered is the part of a handle that tells of an order.
type ordered struct {
	// Asked: the order may have left.
	Asked bool `json:"asked,omitempty"`
	// Listed: the BMC lists its tasks, and Tasks were there before the order.
	Listed bool     `json:"listed,omitempty"`
	Tasks  []string `json:"tasks,omitempty"`
	// Looks is how often the traces of the order have been looked for in vain.
	Looks int `json:"looks,omitempty"`
	// Said is what came back in place of an answer.
	Said string `json:"said,omitempty"`
	// Told: the BMC has said that it has carried the order out.
	Told bool `json:"told,omitempty"`
	restart
	// claims tell the node's tasks from those of other nodes of its BMC; nil: all may be the node's.
	claims *claims
}

// about notes, before an order, which tasks the BMC has. What a refused order has noted stays: a
// task that is new since then may be that order's.
func (o *ordered) about(c *gofish.APIClient) {
	if !o.Listed {
		o.Tasks, o.Listed = tasks(c)
	}
	o.Asked, o.Looks, o.Said, o.Told, o.restart = true, 0, "", false, restart{}
}

// outcome sorts an order's error. taken is false if the BMC has certainly not taken the order. A nil
// error means that the order is answered, or that its traces have to be looked for.
func (o *ordered) outcome(doing string, code int, err error) (taken bool, _ error) {
	switch {
	case err == nil, errors.Is(err, driver.ErrFenced):
		return true, err
	case errors.Is(err, driver.ErrUnknown), code == http.StatusInternalServerError:
		o.Said = err.Error()
		if _, said, found := strings.Cut(o.Said, doing+": "); found {
			o.Said = said
		}
		return true, nil
	}
	o.Asked = false
	return false, err
}

// fresh returns the tasks that were not there before the order, and are not known to be other nodes'.
func (o *ordered) fresh(c *gofish.APIClient) (list []string) {
	if !o.Listed {
		return nil
	}
	now, _ := tasks(c)
	return slices.DeleteFunc(now, func(t string) bool { return slices.Contains(o.Tasks, t) || o.claims.another(t) })
}

// look counts a look in vain. The error of the last says what may have happened.
func (o *ordered) look(t *driver.Task, doing, effect string, fresh []string) error {
	if o.Looks++; o.Looks < looks {
		return nil
	}
	lost := "its rackd was lost while it gave the BMC the order"
	if o.Said != "" {
		lost = "the answer does not tell (" + o.Said + ")"
	}
	var traces string
	switch {
	case len(fresh) > 1:
		traces = "several of its tasks are new: " + strings.Join(fresh[:min(len(fresh), 8)], ", ")
	case o.Listed:
		traces = "it lists no new task"
	default:
		traces = "it lists no tasks"
	}
	return fmt.Errorf("node %s: %s: it is not known whether the BMC has taken the order: %s, %s and %s. It may be at work on it. Rackd does not repeat the order: look at the BMC's tasks and log, let it finish, then repeat the request",
		t.Node.Label(), doing, lost, effect, traces)
}

// tasks lists the paths of the BMC's tasks. ok is false if it lists none, or too many.
func tasks(c *gofish.APIClient) (list []string, ok bool) {
	var root struct{ Tasks ref }
	var service struct{ Tasks ref }
	if fetch(c, "/redfish/v1", &root) != nil || root.Tasks.Path == "" ||
		fetch(c, root.Tasks.Path, &service) != nil || service.Tasks.Path == "" {
		return nil, false
	}
	all, err := members(c, service.Tasks.Path)
	if err != nil || len(all) > most {
		return nil, false
	}
	for _, m := range all {
		list = append(list, m.Path)
	}
	return list, true
}
