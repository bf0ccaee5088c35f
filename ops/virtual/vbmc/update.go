package vbmc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Paths of the update service (DSP2046, UpdateService).
const (
	updatePath    = rootPath + "/UpdateService"
	inventoryPath = updatePath + "/FirmwareInventory"
	simplePath    = updatePath + "/Actions/UpdateService.SimpleUpdate"
)

// fetchWithin bounds the fetching of a file.
const fetchWithin = 30 * time.Second

var transfers = []string{"HTTP", "HTTPS"}

func (b *BMC) updateService() object {
	return resource(updatePath, "UpdateService.v1_8_0.UpdateService", "UpdateService", "Update Service", object{
		"ServiceEnabled": true, "FirmwareInventory": link(inventoryPath), "Status": healthy(true),
		"Actions": object{"#UpdateService.SimpleUpdate": object{"target": simplePath, "TransferProtocol@Redfish.AllowableValues": transfers}},
	})
}

// wantedUpdate is what an order says.
type wantedUpdate struct {
	uri, user, password string
	targets             []string
}

// simpleUpdate takes an order to fetch and write firmware. Whether the file is there, and good, its task tells.
func (b *BMC) simpleUpdate(w http.ResponseWriter, r *http.Request) {
	parameters, ok := decodeAction(w, r)
	if !ok {
		return
	}
	var u wantedUpdate
	var protocol string
	if e := parameters.parameters("UpdateService.SimpleUpdate", map[string]any{"ImageURI": &u.uri, "TransferProtocol": &protocol, "Targets": &u.targets,
		"Username": &u.user, "Password": &u.password}, "ImageURI"); e != nil {
		e.write(w)
		return
	}
	at, err := url.Parse(u.uri)
	if err != nil || at.Host == "" {
		refusal{http.StatusBadRequest, "ActionParameterValueFormatError", "The value for the parameter ImageURI in the action UpdateService.SimpleUpdate is no URL."}.write(w)
		return
	}
	scheme := strings.ToUpper(at.Scheme)
	for _, named := range []string{scheme, protocol} {
		if e := inList("the parameter TransferProtocol", "ActionParameterValueNotInList", named, transfers); e != nil && named != "" {
			e.write(w)
			return
		}
	}
	for _, target := range u.targets {
		if e := inList("the parameter Targets", "ActionParameterValueNotInList", target, b.targets()); e != nil {
			e.write(w)
			return
		}
	}
	serving, ok := r.Context().Value(service{}).(context.Context)
	if !ok {
		serving = context.WithoutCancel(r.Context())
	}
	b.Flashes() // a start of the computer ends a task
	b.firmware.mu.Lock()
	busy := b.firmware.staged != nil
	b.firmware.mu.Unlock()
	t, free := b.tasks.begin()
	if busy || !free {
		if free {
			b.tasks.set(t, "Exception", 0, "Another update waits for the next start of the system.")
		}
		refusal{http.StatusConflict, "ResourceInUse", "The change to the requested resource failed because another update is in progress."}.write(w)
		return
	}
	ctx, cancel := context.WithCancel(serving)
	b.lives.begun(cancel)
	shown, _ := b.tasks.find(t.id)
	go func() {
		defer cancel()
		b.update(ctx, t, u)
	}()
	shown.accepted(w)
}

// targets are what an order may name.
func (b *BMC) targets() (list []string) {
	for _, name := range b.components() {
		list = append(list, inventoryPath+"/"+name)
	}
	return list
}

// update fetches a file and writes what is in it. A start of the BMC cuts it short: then nothing is written.
func (b *BMC) update(ctx context.Context, t *task, u wantedUpdate) {
	f, err := b.fetchFirmware(ctx, u)
	if err != nil {
		if ctx.Err() == nil {
			// Real BMCs repeat the whole URL, too (the message TransferFailed of the registry Update).
			b.tasks.set(t, "Exception", 0, fmt.Sprintf("Transfer of image '%s' failed: %v.", u.uri, err))
		}
		return
	}
	b.tasks.set(t, "Running", 50, "Image verified: "+f.Component+" "+f.Version+".")
	b.firmware.mu.Lock()
	writing := time.NewTimer(b.firmware.takes)
	b.firmware.mu.Unlock()
	defer writing.Stop()
	select {
	case <-ctx.Done():
		return
	case <-writing.C:
	}
	b.firmware.mu.Lock()
	if ctx.Err() != nil {
		b.firmware.mu.Unlock()
		return
	}
	if f.Component == BIOSFirmware {
		b.firmware.staged = &staged{f.Version, b.computer.(BootCounter).Starts(), t}
		b.tasks.set(t, "Pending", 0, "The update is applied when the system starts next.")
		b.firmware.mu.Unlock()
		return
	}
	b.firmware.flashes = append(b.firmware.flashes, f)
	b.tasks.set(t, "Completed", 100, "The manager restarts with its new firmware.")
	b.firmware.mu.Unlock()
	b.Restart()
}

// fetchFirmware fetches the file of an order, and checks it.
func (b *BMC) fetchFirmware(ctx context.Context, u wantedUpdate) (f Flash, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.uri, nil)
	if err != nil {
		return f, err
	}
	if u.user != "" {
		req.SetBasicAuth(u.user, u.password)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: b.cfg.Dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as BMCs are that have no certificates to compare with
	resp, err := client.Do(req)
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return f, fmt.Errorf("its server answers %s", resp.Status)
	}
	if f, err = readFirmware(resp.Body); err != nil {
		return f, err
	}
	for _, name := range b.components() {
		if named[name] == f.Component && (len(u.targets) == 0 || slices.Contains(u.targets, inventoryPath+"/"+name)) {
			return f, nil
		}
	}
	return f, fmt.Errorf("it is firmware of %s, which is none of the targets", f.Component)
}
