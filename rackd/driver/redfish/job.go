package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/rackd/driver"
)

// jobPoll is how often a task of a BMC is asked for.
const jobPoll = 10 * time.Second

// progress of a task of a BMC.
type progress int

const (
	running progress = iota
	done
	staged    // accepted, and begun when the machine restarts
	forgotten // ended: the BMC does not say how
)

// unbegun are the states of tasks that may wait for a restart of the machine.
var unbegun = []schemas.TaskState{schemas.NewTaskState, schemas.StartingTaskState, schemas.PendingTaskState, schemas.SuspendedTaskState}

// fetch reads a resource. gofish hides most of the links that are needed here.
func fetch(c *gofish.APIClient, path string, into any) error {
	_, err := fetchCode(c, path, into)
	return err
}

// fetchCode is fetch with the status of the answer. A monitor of a task answers 202 until the task has ended, with or
// without a body.
func fetchCode(c *gofish.APIClient, path string, into any) (code int, err error) {
	resp, err := c.Get(path)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return resp.StatusCode, nil
	}
	err = json.NewDecoder(resp.Body).Decode(into)
	if err != nil && !(errors.Is(err, io.EOF) && resp.StatusCode == http.StatusAccepted) {
		return resp.StatusCode, fmt.Errorf("its answer at %s cannot be read: %w", path, err)
	}
	return resp.StatusCode, nil
}

// ref is a link to a resource.
type ref struct {
	Path string `json:"@odata.id"`
}

// oneLink is a link to a resource. BMCs of Intel's boards write a list with a link in it.
type oneLink struct{ ref }

// UnmarshalJSON takes either form.
func (o *oneLink) UnmarshalJSON(raw []byte) error {
	var list []ref
	if json.Unmarshal(raw, &list) != nil {
		return json.Unmarshal(raw, &o.ref)
	}
	if len(list) > 0 {
		o.ref = list[0]
	}
	return nil
}

// members lists a collection's members.
func members(c *gofish.APIClient, path string) ([]ref, error) {
	var all struct{ Members []ref }
	return all.Members, fetch(c, path, &all)
}

// order sends a request that the BMC may answer with a task; job is the task's path,
// empty when all is done.
func order(c *gofish.APIClient, method, path string, body any) (job string, err error) {
	send := func() (*http.Response, error) { return c.Post(path, body) }
	switch method {
	case http.MethodDelete:
		send = func() (*http.Response, error) { return c.Delete(path) }
	case http.MethodPut:
		send = func() (*http.Response, error) { return c.Put(path, body) }
	}
	resp, err := send()
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return taskOf(resp), nil
}

// taskOf is the path of the task that an answer tells of, empty for none.
func taskOf(resp *http.Response) string {
	var task struct {
		ref
		TaskState string
	}
	if json.NewDecoder(resp.Body).Decode(&task) == nil && task.TaskState != "" && task.Path != "" {
		return task.Path
	}
	if resp.StatusCode != http.StatusAccepted {
		return ""
	}
	// Some BMCs write the whole URL.
	if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
		return u.Path
	}
	return ""
}

// job asks for the task of an order; one that has failed is an error. A task that runs is a sign of life.
func (d *Driver) job(ctx context.Context, t *driver.Task, doing, job string, o *ordered) (is progress, err error) {
	err = d.pool.with(ctx, nil, t.Node, doing, func(_ *session, a account, c *gofish.APIClient) error {
		var task struct {
			TaskState, TaskStatus string
			PercentComplete       *float64
			Messages              []struct{ Message string }
		}
		code, err := fetchCode(c, job, &task)
		if code == http.StatusOK && errors.Is(err, io.EOF) {
			err = nil // a monitor's last answer may be empty, as that of the order
		}
		if status(err) == http.StatusNotFound {
			is = forgotten // BMCs forget tasks that have ended
			t.Record.Idle()
			return nil
		}
		if err != nil {
			return err
		}
		if code == http.StatusAccepted && task.TaskState == "" {
			task.TaskState = string(schemas.NewTaskState) // more it does not say
		}
		if o.Followed++; o.Followed > longest {
			t.Record.Idle()
			return fmt.Errorf("its task %s has not ended within %s and is %s: look at the BMC's log, and delete the task there", job, longest*jobPoll, task.TaskState)
		}
		var said []string
		for _, m := range task.Messages {
			said = append(said, m.Message)
		}
		switch state := schemas.TaskState(task.TaskState); {
		case (state == schemas.CompletedTaskState || state == "") && task.TaskStatus != "Critical":
			is = done
			t.Record.Idle()
			return nil
		case state == schemas.CompletedTaskState, state == "", state == schemas.ExceptionTaskState, state == schemas.KilledTaskState, state == schemas.CancelledTaskState:
			t.Record.Idle()
			return fmt.Errorf("its task %s ended as %s: %s", job, task.TaskState, strings.Join(said, " "))
		}
		far := fmt.Sprintf("task %s is %s", job, task.TaskState)
		if task.PercentComplete != nil {
			far += fmt.Sprintf(", %.0f %%", *task.PercentComplete)
		}
		if len(said) > 0 {
			far += fmt.Sprintf(", message %d: %s", len(said), a.clean(said[len(said)-1]))
		}
		if slices.Contains(unbegun, schemas.TaskState(task.TaskState)) && (task.PercentComplete == nil || *task.PercentComplete == 0) {
			is, err = o.stands(t, far)
			return err
		}
		o.Still = 0
		t.Record.Busy(far)
		return nil
	})
	if errors.Is(err, driver.ErrUnreachable) {
		return running, nil // a BMC that writes its own firmware restarts
	}
	return is, err
}
