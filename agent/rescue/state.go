package rescue

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// State is what an agent that starts again in the same boot needs to go on letting people in.
type State struct {
	Hash string `json:"password_hash"`
	Key  []byte `json:"ssh_host_key"` // PEM
}

// NewState makes a host key for a password's hash. The key is as old as the rescue, so that it says which rescue it is.
func NewState(hash string) (State, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return State{}, fmt.Errorf("make the host key of the rescue: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return State{}, fmt.Errorf("write the host key of the rescue: %w", err)
	}
	return State{Hash: hash, Key: pem.EncodeToMemory(block)}, nil
}

// Save writes the state to a file in memory that only root may read.
func (s State) Save(path string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep the rescue: %w", err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("keep the rescue: %w", err)
	}
	return nil
}

// Load reads what Save wrote; ok is false where there is no rescue.
func Load(path string) (s State, ok bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return s, false, fmt.Errorf("read the rescue that an agent before has begun: %w", err)
	}
	return s, true, nil
}
