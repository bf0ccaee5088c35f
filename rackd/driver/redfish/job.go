package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/rackd/driver"
)

// jobPoll is how often a task of a BMC is asked for.
const jobPoll = 10 * time.Second

// progress of a task of a BMC.
type progress int

const (
	running progress = iota
	done
	staged    // accepted, and made when the machine restarts
	forgotten // ended: the BMC does not say how
)

// fetch reads a resource. gofish hides most of the links that are needed here.
func fetch(c *gofish.APIClient, path string, into any) error {
	resp, err := c.Get(path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("its answer at %s cannot be read: %w", path, err)
	}
	return nil
}

// ref is a link to a resource.
type ref struct {
	Path string `json:"@odata.id"`
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
	if method == http.MethodDelete {
		send = func() (*http.Response, error) { return c.Delete(path) }
	}
	resp, err := send()
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var task struct {
		ref
		TaskState string
	}
	if json.NewDecoder(resp.Body).Decode(&task) == nil && task.TaskState != "" && task.Path != "" {
		return task.Path, nil
	}
	if resp.StatusCode != http.StatusAccepted {
		return "", nil
	}
	// Some BMCs write the whole URL.
	if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
		return u.Path, nil
	}
	return "", nil
}

// job asks for a task; one that has failed is an error. A task that runs is a sign of life.
func (d *Driver) job(ctx context.Context, t *driver.Task, doing, job string) (is progress, err error) {
	err = d.pool.with(ctx, nil, t.Node, doing, func(_ *bmc, a account, c *gofish.APIClient) error {
		var task struct {
			TaskState, TaskStatus string
			PercentComplete       *float64
			Messages              []struct{ Message string }
		}
		err := fetch(c, job, &task)
		if status(err) == http.StatusNotFound {
			is = forgotten // BMCs forget tasks that have ended
			t.Record.Idle()
			return nil
		}
		if err != nil {
			return err
		}
		failed := false
		switch redfish.TaskState(task.TaskState) {
		case redfish.CompletedTaskState, "":
			is, failed = done, task.TaskStatus == "Critical"
		case redfish.PendingTaskState, redfish.SuspendedTaskState:
			is = staged
		case redfish.ExceptionTaskState, redfish.KilledTaskState, redfish.CancelledTaskState:
			failed = true
		}
		var said []string
		for _, m := range task.Messages {
			said = append(said, m.Message)
		}
		if is == running && !failed {
			far := fmt.Sprintf("task %s is %s", job, task.TaskState)
			if task.PercentComplete != nil {
				far += fmt.Sprintf(", %.0f %%", *task.PercentComplete)
			}
			if len(said) > 0 {
				far += fmt.Sprintf(", message %d: %s", len(said), a.clean(said[len(said)-1]))
			}
			t.Record.Busy(far)
			return nil
		}
		t.Record.Idle()
		if !failed {
			return nil
		}
		return fmt.Errorf("its task %s ended as %s: %s", job, task.TaskState, strings.Join(said, " "))
	})
	if errors.Is(err, driver.ErrUnreachable) {
		return running, nil // a BMC that writes its own firmware restarts
	}
	return is, err
}
