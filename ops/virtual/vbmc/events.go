package vbmc

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Paths of the event service (DSP0266, "Eventing"). Subscriptions are kept, and each is told of changes of power.
const (
	eventsPath        = rootPath + "/EventService"
	subscriptionsPath = eventsPath + "/Subscriptions"
)

// maxSubscriptions is how many a BMC keeps: real ones have room for a few.
const maxSubscriptions = 20

const (
	// watchEvery is how often a BMC that has subscriptions looks at its computer's power.
	watchEvery = 500 * time.Millisecond
	// postWithin bounds one post. Real BMCs try again; this one does not.
	postWithin = 5 * time.Second
)

// subscriptions are the destinations of a BMC's events.
type subscriptions struct {
	mu       sync.Mutex
	last     int
	all      []object
	watching bool
	events   int // that were told
}

func (b *BMC) eventService() object {
	return resource(eventsPath, "EventService.v1_7_0.EventService", "EventService", "Event Service", object{
		"ServiceEnabled": true, "EventTypesForSubscription": []string{"StatusChange", "ResourceUpdated", "Alert"}, "Subscriptions": link(subscriptionsPath), "Status": healthy(true),
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
	if ctx, serves := r.Context().Value(service{}).(context.Context); serves && !b.subscriptions.watching {
		b.subscriptions.watching = true
		go b.watch(ctx, b.computer.On())
	}
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

// watch tells the subscribers of changes of power, until there are none or ctx ends.
func (b *BMC) watch(ctx context.Context, on bool) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.subscriptions.mu.Lock()
		if len(b.subscriptions.all) == 0 {
			b.subscriptions.watching = false
			b.subscriptions.mu.Unlock()
			return
		}
		b.subscriptions.mu.Unlock()
		if is := b.computer.On(); is != on {
			on = is
			b.tell(ctx, on)
		}
	}
}

// tell posts an event of the computer's power to each subscriber, one after the other.
func (b *BMC) tell(ctx context.Context, on bool) {
	type target struct{ to, about string }
	var targets []target
	b.subscriptions.mu.Lock()
	b.subscriptions.events++
	id := strconv.Itoa(b.subscriptions.events)
	for _, s := range b.subscriptions.all {
		to, _ := s["Destination"].(string)
		about, _ := s["Context"].(string)
		targets = append(targets, target{to, about})
	}
	b.subscriptions.mu.Unlock()
	client := http.Client{Timeout: postWithin, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as BMCs are that have no certificates to compare with
	for _, t := range targets {
		body, err := json.Marshal(object{"@odata.type": "#Event.v1_4_0.Event", "Id": id, "Name": "Event", "Context": t.about, "Events": []object{{
			"EventType": "StatusChange", "EventId": id, "MemberId": "1", "EventTimestamp": b.cfg.Now().UTC().Format(time.RFC3339), "Severity": "OK",
			"MessageId": "ResourceEvent.1.0.ResourcePowerStateChanged", "Message": "The power is now " + powerState(on) + ".", "OriginOfCondition": link(systemPath)}}})
		if err != nil {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.to, bytes.NewReader(body))
		if err != nil {
			continue
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			b.cfg.Log.Debug("an event reaches nobody", "error", err)
			continue
		}
		resp.Body.Close()
	}
}
