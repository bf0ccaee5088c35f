package idrac

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// manager is the iDRAC's resource of itself, as far as Dell's additions are read here.
type manager struct {
	Path    string `json:"-"`
	ID      string `json:"Id"`
	Actions struct {
		Oem map[string]action
	}
	Links struct {
		Oem struct{ Dell dellLinks }
	}
}

// dellLinks are where Dell's services are. Firmware of before 4 has some of them only.
type dellLinks struct {
	DellAttributes                      []redfish.Link
	DellJobService, DellLCService, Jobs redfish.Link
	CardService                         redfish.Link `json:"DelliDRACCardService"`
}

// action of a resource.
type action struct {
	Target        string   `json:"target"`
	Force         []string `json:"Force@Redfish.AllowableValues"`
	ShutdownTypes []string `json:"ShutdownType@Redfish.AllowableValues"`
}

// managerOf reads the iDRAC of a turn's system.
func managerOf(t *redfish.Turn) (m manager, err error) {
	m.Path, err = t.Manager(&m)
	return m, err
}

// profile is the action of the manager that imports or exports a configuration profile.
func (m manager) profile(name string) (action, error) {
	for called, a := range m.Actions.Oem {
		if strings.HasSuffix(called, "#OemManager."+name) && a.Target != "" {
			return a, nil
		}
	}
	return action{}, fmt.Errorf("it has no action %s, which iDRAC 8 has from 2.50 on and iDRAC 9 always: %w", name, driver.ErrUnsupported)
}

// serviceAction is an action of one of Dell's services.
func serviceAction(t *redfish.Turn, at redfish.Link, service, name string) (action, error) {
	if at.Path == "" {
		// Ironic's words for it.
		return action{}, fmt.Errorf("Oem/Dell/%s is missing: upgrade the iDRAC's firmware, if it is an iDRAC 9: %w", service, driver.ErrUnsupported)
	}
	var s struct{ Actions map[string]action }
	if err := t.Read(at.Path, &s); err != nil {
		return action{}, err
	}
	a := s.Actions["#"+service+"."+name]
	if a.Target == "" {
		return a, fmt.Errorf("its %s has no action %s: %w", service, name, driver.ErrUnsupported)
	}
	return a, nil
}

// unfinished are the states of jobs that have not ended.
var unfinished = []string{"Scheduled", "Running", "Paused", "New", "Scheduling", "Waiting", "Downloading", "Downloaded", "ReadyForExecution", "RebootPending", "PendingActivation"}

// job is a job of the queue.
type job struct {
	ID       string `json:"Id"`
	JobState string
	Name     string
	// The rest is for people.
	Message, StartTime, EndTime string
	PercentComplete             any
}

// open reports whether the job has not ended.
func (j job) open() bool { return slices.Contains(unfinished, j.JobState) }

// jobs reads the queue.
func jobs(t *redfish.Turn, m manager) (list []job, err error) {
	at := m.Links.Oem.Dell.Jobs.Path
	if at == "" {
		at = strings.TrimSuffix(m.Path, "/") + "/Jobs" // firmware from before the link
	}
	var queue struct{ Members []job }
	if err := t.Read(at+"?$expand=.($levels=1)", &queue); err != nil {
		return nil, err
	}
	var plain struct{ Members []redfish.Link }
	for _, j := range queue.Members {
		if j.ID == "" {
			if err := t.Read(at, &plain); err != nil {
				return nil, err
			}
			break
		}
	}
	if plain.Members == nil {
		return queue.Members, nil
	}
	for _, at := range plain.Members { // it does not expand
		var j job
		if err := t.Read(at.Path, &j); err != nil {
			return nil, err
		}
		list = append(list, j)
	}
	return list, nil
}

// openJobs are the jobs that have not ended.
func openJobs(t *redfish.Turn, m manager) ([]job, error) {
	list, err := jobs(t, m)
	return slices.DeleteFunc(list, func(j job) bool { return !j.open() }), err
}

// told is what an iDRAC tells of a job, fit to show: firmware quotes what it was sent, passwords and URLs too.
func told(n *node.Document, text string) string { return bmc.Clean(bmc.Told(n.DriverInfo, text)) }

// names of a node's jobs, for people.
func names(n *node.Document, list []job) string {
	var all []string
	for _, j := range list[:min(len(list), 8)] {
		all = append(all, fmt.Sprintf("%s (%s, %s)", told(n, j.ID), told(n, j.Name), told(n, j.JobState)))
	}
	return strings.Join(all, ", ")
}
