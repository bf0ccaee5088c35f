package vbmc

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// Paths of the event service (DSP0266, "Eventing"). Subscriptions are kept; no events
// are sent.
const (
	eventsPath        = rootPath + "/EventService"
	subscriptionsPath = eventsPath + "/Subscriptions"
)

// maxSubscriptions is how many a BMC keeps: real ones have room for a few.
const maxSubscriptions = 20

// subscriptions are the destinations of a BMC's events.
type subscriptions struct {
	mu   sync.Mutex
	last int
	all  []object
}

func (b *BMC) eventService() object {
	return resource(eventsPath, "EventService.v1_7_0.EventService", "EventService", "Event Service", object{
		"ServiceEnabled": true, "EventTypesForSubscription": []string{"Alert"}, "Subscriptions": link(subscriptionsPath), "Status": healthy(true),
	})
}

func (b *BMC) listSubscriptions() object {
	b.subscriptions.mu.Lock()
	defer b.subscriptions.mu.Unlock()
	var members []string
	for _, s := range b.subscriptions.all {
		members = append(members, s["@odata.id"].(string))
	}
	return collection(subscriptionsPath, "EventDestinationCollection", "Event Subscriptions", members...)
}

func (b *BMC) createSubscription(w http.ResponseWriter, r *http.Request) {
	var asked object
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&asked); err != nil || asked["Destination"] == nil || asked["Protocol"] == nil {
		refusal{http.StatusBadRequest, "PropertyMissing", "A subscription needs Destination and Protocol."}.write(w)
		return
	}
	b.subscriptions.mu.Lock()
	defer b.subscriptions.mu.Unlock()
	if len(b.subscriptions.all) >= maxSubscriptions {
		refusal{http.StatusServiceUnavailable, "EventSubscriptionLimitExceeded", "There are as many subscriptions as the service can keep."}.write(w)
		return
	}
	b.subscriptions.last++
	id := strconv.Itoa(b.subscriptions.last)
	made := resource(subscriptionsPath+"/"+id, "EventDestination.v1_9_0.EventDestination", id, "Event Subscription", asked)
	b.subscriptions.all = append(b.subscriptions.all, made)
	w.Header().Set("Location", subscriptionsPath+"/"+id)
	write(w, http.StatusCreated, made)
}

// subscription calls found with the index of the subscription that the path names,
// under the lock.
func (b *BMC) subscription(w http.ResponseWriter, r *http.Request, found func(i int)) {
	b.subscriptions.mu.Lock()
	defer b.subscriptions.mu.Unlock()
	for i, s := range b.subscriptions.all {
		if s["Id"] == r.PathValue("id") {
			found(i)
			return
		}
	}
	notFound(w, r)
}

func (b *BMC) showSubscription(w http.ResponseWriter, r *http.Request) {
	b.subscription(w, r, func(i int) {
		shown := object{}
		for k, v := range b.subscriptions.all[i] {
			shown[k] = v
		}
		write(w, http.StatusOK, shown)
	})
}

func (b *BMC) deleteSubscription(w http.ResponseWriter, r *http.Request) {
	b.subscription(w, r, func(i int) {
		b.subscriptions.all = append(b.subscriptions.all[:i], b.subscriptions.all[i+1:]...)
		w.WriteHeader(http.StatusNoContent)
	})
}
