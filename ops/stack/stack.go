// Package stack runs central and its bus in this process: what one machine needs
// of a control plane. The rackd is another's: in the same process for `ironyard
// dev`, in a rack's network for the lab.
//
// It may import central, protocol and ops/embeddedbus.
package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/ops/embeddedbus"
	"github.com/ironyard/ironyard/protocol/filelock"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

// Options of a stack.
type Options struct {
	Dir string // database, bus, key
	// Database is another database than SQLite in Dir.
	Database string
	Listen   string // of the API
	// BusListen is where the bus listens for other processes; empty: nowhere.
	BusListen string
	// Access says who may use the API; empty: everybody may.
	Access daemon.Access
	// NoVNC is a folder with noVNC, for a page of graphical consoles; empty: there is no page.
	NoVNC string
	Log   *slog.Logger
}

// Stack is a running control plane.
type Stack struct {
	Endpoint string // of the API
	// BusAddress and BusToken are for other processes.
	BusAddress, BusToken string
	Conn                 *nats.Conn
	Key                  *seal.Key
	Store                *store.Store
	// Roster knows which rackds central sees.
	Roster *roster.Roster
}

// Run runs a stack until ctx ends; ready is called once the API answers. A run with
// the same folder goes on where the one before stopped.
func Run(ctx context.Context, o Options, ready func(*Stack)) error {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	// Two buses in one folder would spoil each other's streams.
	release, err := filelock.Try(filepath.Join(o.Dir, ".lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return fmt.Errorf("another process uses the folder %s: end it, or name another folder with --data", o.Dir)
	}
	if err != nil {
		return err
	}
	defer release()
	key, err := keyIn(o.Dir)
	if err != nil {
		return err
	}
	s := &Stack{Key: key}
	if o.BusListen != "" {
		s.BusToken = newToken()
	}
	b, err := embeddedbus.Start(ctx, embeddedbus.Options{Dir: o.Dir, Listen: o.BusListen, Token: s.BusToken, Log: o.Log})
	if err != nil {
		return err
	}
	defer b.Stop()
	s.BusAddress = strings.TrimPrefix(b.URL(), "nats://")
	if s.Conn, err = b.Connect("central", s.BusToken); err != nil {
		return fmt.Errorf("connect to the bus in this process: %w", err)
	}
	defer s.Conn.Close()
	database := o.Database
	if database == "" {
		database = "sqlite:" + filepath.Join(o.Dir, "central.db")
	}
	return daemon.Run(ctx, daemon.Config{Database: database, Listen: o.Listen, Key: key, Conn: s.Conn, Access: o.Access, NoVNC: o.NoVNC, Log: o.Log}, func(i daemon.Info) {
		s.Endpoint, s.Store, s.Roster = i.Endpoint, i.Store, i.Roster
		if ready != nil {
			ready(s)
		}
	})
}

// keyIn reads the key in dir, making one the first time.
func keyIn(dir string) (*seal.Key, error) {
	path := filepath.Join(dir, "secret.key")
	text, err := os.ReadFile(path)
	if err == nil {
		return seal.ParseKey(string(text))
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	key, err := seal.GenerateKey()
	if err != nil {
		return nil, err
	}
	return key, secretfile.Write(path, []byte(key.Text()+"\n"))
}

func newToken() string {
	raw := make([]byte, 24)
	rand.Read(raw) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(raw)
}
