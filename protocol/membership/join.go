package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

// Join joins the fleet with a token and fills dir, which it makes. name is a rackd's
// where the token leaves it open. When the answer gets lost, joining again with the
// same token and folder is the same joining.
func Join(ctx context.Context, t join.Token, dir, name string) (*Member, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m := &Member{Dir: dir, Central: t.Central()}
	if _, err := os.Stat(m.Path(memberFile)); err == nil {
		return nil, fmt.Errorf("%s is already a member's folder: renew it (`ironyard site renew`), or join with another folder", dir)
	}
	k, err := joining(m.Path(joiningFile))
	if err != nil {
		return nil, err
	}
	r := join.Request{Token: t.ID, Secret: t.Secret, Name: name}
	if err := k.request(&r); err != nil {
		return nil, err
	}
	g, err := m.Central.Enrol(ctx, r)
	if err != nil {
		return nil, err
	}
	if _, err := m.accept(g, k, time.Now()); err != nil {
		return nil, err
	}
	return m, os.Remove(m.Path(joiningFile))
}

// joining returns the keys of the joining that path tells of, a new one's when there
// is none. They are on disk before anybody hears of them.
func joining(path string) (k keys, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(text, &k); err != nil {
			return k, fmt.Errorf("%s: %w", path, err)
		}
		return k, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if k, err = newKeys(); err != nil {
		return k, err
	}
	if text, err = json.Marshal(k); err != nil {
		return k, err
	}
	return k, secretfile.Write(filepath.Clean(path), text)
}
