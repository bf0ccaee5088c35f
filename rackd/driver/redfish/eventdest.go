package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// eventService is what a BMC says of its events (DSP2046, EventService).
type eventService struct {
	ServiceEnabled     *bool
	ServerSentEventURI string `json:"ServerSentEventUri"`
	// EventTypesForSubscription is missing where subscriptions name registries instead.
	EventTypesForSubscription []string
	Subscriptions             ref
}

// eventServiceOf reads the BMC's event service.
func eventServiceOf(c *gofish.APIClient) (s eventService, err error) {
	var root struct{ EventService ref }
	if err := fetch(c, "/redfish/v1/", &root); err != nil {
		return s, err
	}
	if root.EventService.Path == "" {
		return s, fmt.Errorf("it has no event service: %w", driver.ErrUnsupported)
	}
	return s, fetch(c, root.EventService.Path, &s)
}

// eventsOf is the BMC's event service, which is switched on.
func eventsOf(c *gofish.APIClient) (s eventService, err error) {
	if s, err = eventServiceOf(c); err != nil {
		return s, err
	}
	if s.ServiceEnabled != nil && !*s.ServiceEnabled {
		return s, fmt.Errorf("its event service is switched off: %w", driver.ErrUnsupported)
	}
	return s, nil
}

// destination is a subscription.
type destination struct {
	ref
	Destination string
	// VerifyCertificate is nil where the BMC does not say.
	VerifyCertificate *bool
}

const (
	// subscriber is the Context of rackd's subscriptions, for people who list them.
	subscriber = "ironyard"
	// mostDestinations bounds how many subscriptions are looked at. BMCs keep some twenty.
	mostDestinations = 200
)

// powerTypes are the event types by which firmwares tell a change of power. Many know Alert only.
var powerTypes = []string{"StatusChange", "ResourceUpdated", "Alert"}

// wantedTypes are the lists of event types to ask for, best first. A nil list asks for whatever there is.
func (s eventService) wantedTypes() (list [][]string) {
	var types []string
	for _, t := range powerTypes {
		if slices.Contains(s.EventTypesForSubscription, t) {
			types = append(types, t)
		}
	}
	if len(types) > 0 {
		list = append(list, types)
	}
	if len(types) != 1 || types[0] != "Alert" {
		list = append(list, []string{"Alert"}) // some refuse what they have listed
	}
	if len(s.EventTypesForSubscription) == 0 {
		list = append([][]string{nil}, list...)
	}
	return list
}

// SendEvents implements driver.EventSender by subscriptions (DSP0266, section 13.3). The address itself is what shows that a post is the
// BMC's: it stands in no error.
func (d *Driver) SendEvents(ctx context.Context, f driver.Fence, n *node.Document, to string, stale func(destination string) bool) error {
	return d.pool.with(ctx, f, n, "subscribe to its events", func(_ *session, _ account, c *gofish.APIClient) (err error) {
		defer func() { hide(err, to) }()
		s, err := eventsOf(c)
		if err != nil {
			return err
		}
		if s.Subscriptions.Path == "" {
			return fmt.Errorf("its event service has no subscriptions: %w", driver.ErrUnsupported)
		}
		there, err := destinations(c, s.Subscriptions.Path)
		if err != nil {
			return err
		}
		var ours *destination
		for _, at := range there {
			switch {
			case to != "" && at.Destination == to && ours == nil:
				ours = &at
			case at.Destination == to, stale(at.Destination):
				if err := forgetDestination(c, at.Path); err != nil {
					return err
				}
			}
		}
		if to == "" {
			return nil
		}
		if ours == nil {
			if ours, err = subscribeTo(c, s, to); err != nil {
				return err
			}
		}
		return trustingly(c, ours)
	})
}

// hide takes an address out of what a BMC says of a request that it refuses.
func hide(err error, address string) {
	refused, is := refusal(err)
	if !is || address == "" {
		return
	}
	out := func(text *string) { *text = strings.ReplaceAll(*text, address, "that address") }
	out(&refused.Message)
	for i := range refused.ExtendedInfos {
		out(&refused.ExtendedInfos[i].Message)
		out(&refused.ExtendedInfos[i].Resolution)
	}
}

// destinations reads the subscriptions of a BMC.
func destinations(c *gofish.APIClient, path string) (list []destination, err error) {
	err = each(&survey{c: c, expand: expansion(c)}, path, func(at destination) {
		if at.Path != "" && len(list) < mostDestinations {
			list = append(list, at)
		}
	})
	return list, err
}

// forgetDestination ends a subscription. One that is gone is fine.
func forgetDestination(c *gofish.APIClient, path string) error {
	resp, err := c.Delete(path)
	if status(err) == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	resp.Body.Close()
	return nil
}

// subscribeTo makes a subscription and reads it back.
func subscribeTo(c *gofish.APIClient, s eventService, to string) (*destination, error) {
	made, err := "", error(nil)
	for _, types := range s.wantedTypes() {
		payload := map[string]any{"Destination": to, "Protocol": "Redfish", "Context": subscriber}
		if types != nil {
			payload["EventTypes"] = types
		}
		var resp *http.Response
		if resp, err = c.Post(s.Subscriptions.Path, payload); status(err) == http.StatusBadRequest {
			continue
		}
		if err != nil {
			return nil, err
		}
		if at, err := url.Parse(resp.Header.Get("Location")); err == nil {
			made = at.Path
		}
		resp.Body.Close()
		break
	}
	if err != nil {
		return nil, err
	}
	var is destination
	if made != "" && fetch(c, made, &is) == nil && is.Destination == to {
		is.Path = made
		return &is, nil
	}
	there, err := destinations(c, s.Subscriptions.Path)
	if err != nil {
		return nil, err
	}
	for _, at := range there {
		if at.Destination == to {
			return &at, nil
		}
	}
	return nil, errors.New("it accepted the subscription and does not show it")
}

// trustingly has the BMC post without a look at rackd's certificate, which is rackd's own. Most do not look.
func trustingly(c *gofish.APIClient, at *destination) error {
	if at.VerifyCertificate == nil || !*at.VerifyCertificate {
		return nil
	}
	if _, err := patch(c, maker{}, at.Path, map[string]any{"VerifyCertificate": false}); err != nil {
		return err
	}
	var is destination
	if err := fetch(c, at.Path, &is); err != nil {
		return err
	}
	if is.VerifyCertificate != nil && *is.VerifyCertificate {
		return errors.New("it goes on to verify the certificate of where it posts events to: import the conductor group's certificate there, or let rackd read power without events")
	}
	return nil
}
