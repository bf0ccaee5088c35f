package vbmc

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// Paths of the task service (DSP0266, "Asynchronous operations").
const (
	taskServicePath = rootPath + "/TaskService"
	tasksPath       = taskServicePath + "/Tasks"
	monitorsPath    = taskServicePath + "/TaskMonitors"
)

// maxTasks is how many tasks are kept; those that came first go first.
const maxTasks = 50

// tasks are what the BMC works on, and has worked on since its own start.
type tasks struct {
	mu   sync.Mutex
	last int
	all  []*task
}

// task is one of them. The lock of all guards it.
type task struct {
	id, state string
	percent   int
	messages  []string
}

// ended reports whether it is over, and well.
func (t *task) ended() (over, well bool) {
	return t.state == "Completed" || t.state == "Exception", t.state == "Completed"
}

// begin makes a task, unless another one runs. Ids count from 1 at each start of the BMC.
func (s *tasks) begin() (t *task, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.all, func(t *task) bool { over, _ := t.ended(); return !over }) {
		return nil, false
	}
	s.last++
	t = &task{id: strconv.Itoa(s.last), state: "Running"}
	if s.all = append(s.all, t); len(s.all) > maxTasks {
		s.all = s.all[1:]
	}
	return t, true
}

// set says how far a task has come.
func (s *tasks) set(t *task, state string, percent int, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.state, t.percent, t.messages = state, percent, append(t.messages, said)
}

// forget drops all, as a start of the BMC does.
func (s *tasks) forget() { s.mu.Lock(); defer s.mu.Unlock(); s.all, s.last = nil, 0 }

// find returns the task that a path names, as it is now.
func (s *tasks) find(id string) (t task, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if t.id == id {
			return task{t.id, t.state, t.percent, slices.Clone(t.messages)}, true
		}
	}
	return task{}, false
}

func (t task) resource() object {
	status := "OK"
	over, well := t.ended()
	if over && !well {
		status = "Critical"
	}
	said := []object{}
	for _, m := range t.messages {
		said = append(said, message(status, "GeneralError", m))
	}
	return resource(tasksPath+"/"+t.id, "Task.v1_4_2.Task", t.id, "Task "+t.id, object{
		"TaskState": t.state, "TaskStatus": status, "PercentComplete": t.percent, "Messages": said, "TaskMonitor": monitorsPath + "/" + t.id,
	})
}

func (b *BMC) taskService() object {
	return resource(taskServicePath, "TaskService.v1_1_6.TaskService", "TaskService", "Task Service", object{"ServiceEnabled": true, "Tasks": link(tasksPath), "Status": healthy(true)})
}

func (b *BMC) listTasks() object {
	b.Flashes() // a start of the computer ends some
	b.tasks.mu.Lock()
	defer b.tasks.mu.Unlock()
	var members []string
	for _, t := range b.tasks.all {
		members = append(members, tasksPath+"/"+t.id)
	}
	return collection(tasksPath, "TaskCollection", "Tasks", members...)
}

func (b *BMC) showTask(w http.ResponseWriter, r *http.Request) {
	b.Flashes()
	t, ok := b.tasks.find(r.PathValue("id"))
	if !ok {
		notFound(w, r)
		return
	}
	write(w, http.StatusOK, t.resource())
}

// showMonitor answers as the request that began the task would have, once that has ended.
func (b *BMC) showMonitor(w http.ResponseWriter, r *http.Request) {
	b.Flashes()
	t, ok := b.tasks.find(r.PathValue("id"))
	over, well := t.ended()
	switch {
	case !ok:
		notFound(w, r)
	case !over:
		t.accepted(w)
	case well:
		w.WriteHeader(http.StatusNoContent)
	default:
		refusal{http.StatusInternalServerError, "OperationFailed", t.messages[len(t.messages)-1]}.write(w)
	}
}

// accepted answers that the task works on.
func (t task) accepted(w http.ResponseWriter) {
	w.Header().Set("Location", monitorsPath+"/"+t.id)
	w.Header().Set("Retry-After", "1")
	write(w, http.StatusAccepted, t.resource())
}
