package reseal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/reseal"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
)

func TestAll(t *testing.T) {
	old, _ := seal.GenerateKey()
	fresh, _ := seal.GenerateKey()
	both := fresh.WithOlder(old)
	db := storetest.Open(t, storetest.SQLite(t))
	before, err := enrol.Open(t.Context(), db, old, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 300 // more than a page
	var nodes []*store.Node
	for range n {
		x := storetest.NewNode("")
		x.DriverInfo = nil
		nodes = append(nodes, x)
	}
	for i, x := range nodes {
		if i%3 != 0 { // a third has no secrets
			x.DriverInfo = old.SealFields(seal.Label{Kind: seal.DriverInfo, Of: x.UUID}, map[string]any{"redfish_password": "p", "redfish_address": "a"})
		}
		x.Name = x.UUID
	}
	storetest.Insert(t, db, nodes...)
	volume := &store.VolumeTarget{UUID: nodes[0].UUID, Node: nodes[0].UUID, VolumeType: "iscsi", VolumeID: "v"}
	volume.Properties = old.SealFields(seal.Label{Kind: seal.Volume, Of: volume.UUID}, map[string]any{"auth_password": "p"})
	if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertVolumeTarget(ctx, volume) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.SetConfigDrive(ctx, &store.ConfigDrive{Node: nodes[1].UUID, Drive: old.Seal(seal.Label{Kind: seal.StoredDrive, Of: nodes[1].UUID}, "drive")})
	}); err != nil {
		t.Fatal(err)
	}
	template := &store.DeployTemplate{UUID: store.NewID(), Name: "CUSTOM_T", Steps: []store.ListedStep{{Interface: "raid", Step: "x"}}}
	runbook := &store.Runbook{UUID: store.NewID(), Name: "CUSTOM_R", Steps: []store.ListedStep{{Interface: "raid", Step: "x", Args: map[string]any{"password": "p"}}}} // of before arguments were sealed
	if template.Steps[0].Args, err = old.SealArgs(template.Steps[0].Label(template.UUID), map[string]any{"password": "p"}); err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertDeployTemplate(ctx, template), tx.InsertRunbook(ctx, runbook))
	})
	if err != nil {
		t.Fatal(err)
	}
	// It is stopped in the middle, and run again.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reseal.All(ctx, db, both); err == nil {
		t.Error("it did not notice that it was stopped")
	}
	done, err := reseal.All(t.Context(), db, both)
	if err != nil || done.Nodes != 200 || done.Current != 100 || done.Secrets != 5 {
		t.Fatalf("%+v, %v", done, err)
	}
	for i, x := range nodes {
		got, err := db.Node(t.Context(), x.UUID)
		if err != nil {
			t.Fatal(err)
		}
		open, err := fresh.OpenFields(seal.Label{Kind: seal.DriverInfo, Of: x.UUID}, got.DriverInfo) // without the old key
		if err != nil || i%3 != 0 && (open["redfish_password"] != "p" || got.Revision == x.Revision) {
			t.Fatalf("node %d: %v, %v, revision %d was %d", i, open, err, got.Revision, x.Revision)
		}
	}
	kept, err := db.VolumeTarget(t.Context(), volume.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if open, err := fresh.OpenFields(seal.Label{Kind: seal.Volume, Of: volume.UUID}, kept.Properties); err != nil || open["auth_password"] != "p" {
		t.Errorf("volume target: %v, %v", open, err)
	}
	drives, err := db.ConfigDrives(t.Context(), "", 10)
	if err != nil || len(drives) != 1 {
		t.Fatalf("config drives %v, %v", drives, err)
	}
	if open, err := fresh.Open(seal.Label{Kind: seal.StoredDrive, Of: nodes[1].UUID}, drives[0].Drive); err != nil || open != "drive" {
		t.Errorf("config drive: %q, %v", open, err)
	}
	templates, err := db.DeployTemplates(t.Context(), store.Page{Limit: 10})
	if err != nil || len(templates) != 1 {
		t.Fatalf("templates %v, %v", templates, err)
	}
	runbooks, err := db.Runbooks(t.Context(), store.RunbookQuery{Page: store.Page{Limit: 10}})
	if err != nil || len(runbooks) != 1 {
		t.Fatalf("runbooks %v, %v", runbooks, err)
	}
	for id, step := range map[string]store.ListedStep{template.UUID: templates[0].Steps[0], runbook.UUID: runbooks[0].Steps[0]} {
		if args, err := fresh.OpenArgs(step.Label(id), step.Args); err != nil || args["password"] != "p" || !seal.SealedArgs(step.Args) {
			t.Errorf("arguments %v open as %v, %v", step.Args, args, err)
		}
	}
	waiting, err := db.OutboxBacklog(t.Context())
	if err != nil || len(waiting) != 1 || waiting[0].Entries != n { // also those without a secret: their documents bear a code
		t.Errorf("to be published: %v, %v", waiting, err)
	}
	after, err := enrol.Open(t.Context(), db, fresh, nil)
	if err != nil || join.Fingerprint(after.Certificate()) != join.Fingerprint(before.Certificate()) {
		t.Errorf("the authority: %v", err)
	}
	if done, err := reseal.All(t.Context(), db, both); err != nil || done.Nodes != 0 || done.Secrets != 0 || done.Current != n {
		t.Errorf("again: %+v, %v", done, err)
	}
	stranger, _ := seal.GenerateKey()
	if _, err := reseal.All(t.Context(), db, stranger); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("with a key that opens nothing: %v", err)
	}
}
