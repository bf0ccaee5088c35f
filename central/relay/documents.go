package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// render makes the node document of a row: secrets are opened with the database's
// key and sealed with the group's.
func render(key, groupKey *seal.Key, row *store.Snapshot) (*node.Document, error) {
	n := row.Node
	reseal := func(label seal.Label, fields map[string]any) (map[string]any, error) {
		if !seal.Holds(fields) {
			return fields, nil
		}
		open, err := key.OpenFields(label, fields)
		if err != nil {
			return nil, err
		}
		return groupKey.SealFields(label, open), nil
	}
	d := &node.Document{UUID: n.UUID, Name: n.Name, Group: n.ConductorGroup, Driver: n.Driver, ResourceClass: n.ResourceClass, Generation: n.Generation,
		Revision: n.Revision, Interfaces: n.Interfaces, Properties: n.Properties, InstanceUUID: n.InstanceUUID,
		Traits: n.Traits, State: n.ProvisionState, Maintenance: n.Maintenance, Fault: n.Fault, AutomatedClean: n.AutomatedClean,
		DisablePowerOff: n.DisablePowerOff, Retired: n.Retired, Protected: n.Protected, ConsoleEnabled: n.ConsoleEnabled, Tenancy: n.Tenancy(),
		TargetRAID: n.TargetRAIDConfig}
	var err error
	if kept := n.DriverInternalInfo[node.KeptKey]; kept != nil {
		if d.Kept, err = json.Marshal(kept); err != nil {
			return nil, fmt.Errorf("driver_internal_info %s: %w", node.KeptKey, err)
		}
	}
	if since, ok := n.DriverInternalInfo[node.PinnedSinceKey].(string); ok {
		if d.PinnedSince, err = strconv.ParseInt(since, 10, 64); err != nil {
			return nil, fmt.Errorf("driver_internal_info %s: %w", node.PinnedSinceKey, err)
		}
	}
	if machine, ok := n.DriverInternalInfo[node.MachineKey].(map[string]any); ok {
		d.Machine.UUID, _ = machine["uuid"].(string)
		d.Machine.Serial, _ = machine["serial"].(string)
	}
	d.BootSet, _ = n.DriverInternalInfo[node.BootSetKey].(string)
	d.DeployBootMode, _ = n.DriverInternalInfo[node.DeployBootModeKey].(string)
	d.SecureBootBefore, _ = n.DriverInternalInfo[node.SecureBootBeforeKey].(string)
	d.LogMark, _ = n.DriverInternalInfo[node.LogMarkKey].(string)
	if files, ok := n.DriverInternalInfo[node.InstanceFilesKey].(map[string]any); ok {
		d.InstanceFiles = map[string]string{}
		for field, id := range files {
			d.InstanceFiles[field], _ = id.(string)
		}
	}
	if disks := n.DriverInternalInfo[node.DisksKey]; disks != nil {
		if d.Disks, err = json.Marshal(disks); err != nil {
			return nil, fmt.Errorf("driver_internal_info %s: %w", node.DisksKey, err)
		}
	}
	if steps := n.DriverInternalInfo[node.AgentStepsKey]; steps != nil {
		if d.AgentSteps, err = json.Marshal(steps); err != nil {
			return nil, fmt.Errorf("driver_internal_info %s: %w", node.AgentStepsKey, err)
		}
	}
	if len(n.NetworkData) > 0 {
		if d.NetworkData, err = json.Marshal(n.NetworkData); err != nil {
			return nil, fmt.Errorf("network_data: %w", err)
		}
	}
	if d.DriverInfo, err = reseal(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, n.DriverInfo); err != nil {
		return nil, fmt.Errorf("driver_info: %w", err)
	}
	if d.InstanceInfo, err = reseal(seal.Label{Kind: seal.InstanceInfo, Of: n.UUID}, n.InstanceInfo); err != nil {
		return nil, fmt.Errorf("instance_info: %w", err)
	}
	for _, p := range row.Ports {
		d.Ports = append(d.Ports, p.Document())
	}
	for _, c := range row.Connectors {
		d.Connectors = append(d.Connectors, node.Connector{Type: c.Type, ID: c.ConnectorID})
	}
	for _, v := range row.Targets {
		target := node.Target{UUID: v.UUID, Type: v.VolumeType, VolumeID: v.VolumeID, BootIndex: v.BootIndex}
		if target.Properties, err = reseal(seal.Label{Kind: seal.Volume, Of: v.UUID}, v.Properties); err != nil {
			return nil, fmt.Errorf("properties of volume target %s: %w", v.UUID, err)
		}
		d.Targets = append(d.Targets, target)
	}
	return d, nil
}

// usualSize is what most node documents take, in bytes.
const usualSize = 768

// putNodes writes the documents of the nodes that the site serves, all at once, and leaves in each order how
// that went.
func (w *writer) putNodes(ctx context.Context, orders []*order, rows map[string]*store.Snapshot) {
	var due []*order
	var writes []bus.Write
	for _, o := range orders {
		row := rows[o.id]
		if o.unread {
			row = &store.Snapshot{Node: o.left}
		}
		if o.lost, o.open, o.first = false, "", nil; o.err != nil || row == nil || !w.serves(o.target, row) || w.shows(o, row) {
			continue
		}
		body, err := w.document(row)
		if err != nil {
			o.err = fmt.Errorf("make the document of node %s: %w", o.id, err)
			continue
		}
		due, writes = append(due, o), append(writes, bus.Write{Key: o.key(), Value: body, Revision: o.node.revision})
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for i, r := range w.site.UpdateAll(ctx, w.site.Nodes, writes) {
		o := due[i]
		if r.Err != nil {
			o.err = fmt.Errorf("write the document of node %s: %w", o.id, r.Err)
			continue
		}
		w.memory.nodes.wrote(r.Revision, o.node.revision == 0)
		w.dropInstanceDrive(ctx, o, rows[o.id])
	}
}

// shows reports whether the site has a document of a node that is as new as its row, and that racks
// take for central's under the newest generation of the key.
func (w *writer) shows(o *order, row *store.Snapshot) bool {
	if o.node.value == nil {
		return false
	}
	old, err := bus.ReadNodeRevision(o.key(), o.node.value)
	if err != nil || old < row.Node.Revision {
		return false
	}
	key, err := w.Groups.ForGroup(row.Node.ConductorGroup)
	if err != nil {
		return false
	}
	posted, err := node.Open(o.node.value)
	if err != nil {
		return false
	}
	_, made := posted.Verify(o.id, key.Newest())
	return made
}

func (w *writer) document(row *store.Snapshot) ([]byte, error) {
	key, err := w.Groups.ForGroup(row.Node.ConductorGroup)
	if err != nil {
		return nil, err
	}
	doc, err := render(w.Key, key, row)
	if err != nil {
		return nil, err
	}
	return doc.AppendSigned(make([]byte, 0, usualSize), key)
}

// holds is the work document that an order's key holds, nil for none.
func (w *writer) holds(o *order) *work.Document {
	if o.work.value == nil {
		return nil
	}
	old, err := bus.ReadWork(o.key(), o.work.value)
	if err != nil { // it is replaced
		w.site.Refuse(w.log, bus.WorkBucket, o.key(), err)
		return nil
	}
	return &old
}

// syncWork makes the WORK key fit the node's open work row, or its absence. What is to be
// sent out is left to sendOut, what the site has lost to restore.
func (w *writer) syncWork(ctx context.Context, o *order, row *store.Snapshot, waiting map[string]bool) error {
	doc, v := decide(row, w.holds(o), o.why(row, waiting), waiting[superseded(row)])
	if v == write && o.vanished() {
		v = lostIt
	}
	if row.Work != nil {
		o.open = row.Work.ID
	}
	o.drive = instanceDrive(row.Node)
	switch o.lost = v == lostIt; v {
	case purge:
		return w.purgeWork(ctx, o)
	case write:
		o.first = doc
	}
	return nil
}

// purgeWork removes an order's work document with the config drive that it names. Drives are large
// and secret: left alone they would fill the site's store. One that cannot be removed does not
// keep the document, and goes when its time is over.
func (w *writer) purgeWork(ctx context.Context, o *order) error {
	w.dropDrive(ctx, o, nil)
	return o.work.purge(ctx, w.site, w.site.Work, o.key())
}

// dropDrive removes the config drive of the document that an order's key held, unless next needs
// the same one, or the node's instance.
func (w *writer) dropDrive(ctx context.Context, o *order, next *work.Document) {
	if o.work.value == nil {
		return
	}
	old := w.holds(o)
	if old == nil || old.Args.ConfigDrive == "" || next != nil && next.Args.ConfigDrive == old.Args.ConfigDrive {
		return
	}
	if o.drive == old.Args.ConfigDrive {
		return // it goes with the instance
	}
	w.removeDrive(ctx, o.id, old.Args.ConfigDrive)
}

// removeDrive removes a config drive from the site.
func (w *writer) removeDrive(ctx context.Context, id, name string) {
	err := w.site.Drives.Delete(ctx, name)
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		w.Log.Warn("a config drive that is not needed any more is not removed from the site; it goes by itself later", "site", w.site.Name,
			"node", id, "drive", name, "after", bus.DrivesMaxAge, "error", err)
	}
}

// instanceDrive is the name of the config drive that a node's instance needs at its site as long as it is there; empty: it needs none.
func instanceDrive(n *store.Node) string {
	files, _ := n.DriverInternalInfo[node.InstanceFilesKey].(map[string]any)
	drive, _ := files[node.FileDrive].(string)
	medium, _ := files[node.FileMedium].(string)
	return node.DriveObject(map[string]string{node.FileDrive: drive, node.FileMedium: medium})
}

// driveMark is in each document of a node whose instance has a config drive at its site.
var driveMark = []byte(`"` + node.FileDrive + `"`)

// dropInstanceDrive removes the config drive that the document of before names for the node's instance, once the row names it no more; nil:
// the site serves the node no longer. An open work may need it still.
func (w *writer) dropInstanceDrive(ctx context.Context, o *order, row *store.Snapshot) {
	if !bytes.Contains(o.node.value, driveMark) {
		return
	}
	old, _, err := bus.ReadNode(o.key(), o.node.value)
	if err != nil {
		return // it is replaced, and its drive goes when its time is over
	}
	name := node.DriveObject(old.InstanceFiles)
	if name == "" || row != nil && (name == instanceDrive(row.Node) || row.Work != nil && row.Work.Args.ConfigDrive == name) {
		return
	}
	w.removeDrive(ctx, o.id, name)
}

// sign puts into doc the code of the work that row is, which is as the database has it: what a site says
// of its works is not signed.
func (w *writer) sign(doc *work.Document, row work.Document) error {
	key, err := w.Groups.ForGroup(row.Group)
	if err != nil {
		return err
	}
	row.Sign(key)
	doc.Code = row.Code
	return nil
}

// putFirst writes the first document of an order's work, which was claimed.
func (w *writer) putFirst(ctx context.Context, o *order) error {
	err := w.sign(o.first, *o.first) // which is made of the row, but for where the work before it stood
	var body []byte
	if err == nil {
		body, err = o.first.Body()
	}
	if err == nil {
		err = o.work.put(ctx, w.site, w.site.Work, &w.memory.work, o.key(), body)
	}
	if err != nil {
		return fmt.Errorf("write the work of node %s: %w", o.id, err)
	}
	w.dropDrive(ctx, o, o.first)
	return nil
}

// reason says why a WORK key is looked at.
type reason int

const (
	told      reason = iota // something about the node changed
	sending                 // the open work's own entry sends it out
	repairing               // the site may have lost it: whoever has claimed it may have sent it out
)

// verdict is what is to become of a WORK key.
type verdict int

const (
	leave verdict = iota
	write         // if nobody else has claimed it
	purge
	lostIt // the document that the rows ask for was there, and is lost
)

// decide says what the WORK key must become, given the rows and what it holds (nil:
// nothing). onItsWay: the work whose place the row's takes has certainly not been sent out yet.
func decide(row *store.Snapshot, old *work.Document, why reason, onItsWay bool) (*work.Document, verdict) {
	if row.Work == nil {
		// Ended, and central knows it; or overtaken by a request that needed no
		// rack. An open document of the node's own generation is what a site shows that
		// has come back from an older copy: nobody may carry it out again.
		if old == nil || old.Generation <= row.Node.Generation {
			return nil, purge
		}
		return nil, leave
	}
	fresh := row.Work.Document()
	var observed uint64 // the highest epoch that counts
	if row.Node.ObservedGeneration == fresh.Generation {
		observed = row.Node.ObservedEpoch
	}
	same := old != nil && old.ID == fresh.ID
	switch {
	case same && old.Epoch >= observed:
		return nil, leave
	case !same && !fresh.Supersedes(old):
		return nil, leave
	case observed > 0 || why == repairing:
		return nil, lostIt
	case why == told:
		return nil, leave // it is on its way
	case old == nil && superseded(row) != "" && !onItsWay:
		return nil, lostIt // its owner may not have noticed, and act on
	}
	if old != nil {
		succeed(&fresh, old)
	}
	return &fresh, write
}

// superseded is the id of the work whose place the row's open work takes, empty for
// none.
func superseded(row *store.Snapshot) string {
	if row.Work == nil {
		return ""
	}
	return row.Work.Args.Supersedes
}

// succeed makes fresh take the place of old. The new owner starts from the next epoch,
// so that the owner of the old work has lost the node. It goes on where the old one stands
// if fresh continues its flow.
func succeed(fresh, old *work.Document) {
	fresh.Epoch = old.Epoch + 1
	if old.Open() {
		// The owner lives, or is found to be dead: he alone goes on with the node or gives
		// it away, so nobody acts beside an owner who has not seen this yet.
		fresh.Owner, fresh.Lease = old.Owner, old.Lease
	}
	fresh.Inherit(old)
}
