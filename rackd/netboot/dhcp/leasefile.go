package dhcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// load reads the lease file. One that is unreadable is set aside: leases are
// derived from the MAC, so most machines get the same address without it, and a
// rack without DHCP is worse than a machine with another address.
func load(path string, log *slog.Logger) ([]lease, error) {
	if path == "" {
		return nil, nil
	}
	body, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read DHCP leases: %w", err)
	}
	var leases []lease
	if err := json.Unmarshal(body, &leases); err != nil {
		aside := path + ".unreadable"
		log.Error("DHCP lease file is unreadable, starting without it", "file", path, "kept as", aside, "error", err)
		if err := os.Rename(path, aside); err != nil {
			return nil, fmt.Errorf("set the unreadable DHCP leases aside: %w", err)
		}
		return nil, nil
	}
	return leases, nil
}

// save writes all leases; p.mu is held. A disk that does not take them costs
// stability across a restart, never an answer now.
func (p *pool) save() {
	for a, l := range p.byAddr {
		if !l.Until.After(p.now()) {
			p.drop(a)
		}
	}
	if p.path == "" {
		return
	}
	leases := make([]lease, 0, len(p.byAddr))
	for _, l := range p.byAddr {
		leases = append(leases, l)
	}
	slices.SortFunc(leases, func(a, b lease) int { return a.Address.Compare(b.Address) })
	if err := replaceFile(p.path, leases); err != nil {
		p.log.Error("DHCP leases not saved; after a restart machines may get other addresses", "file", p.path, "error", err)
	}
}

// replaceFile writes v beside path and moves it into place.
func replaceFile(path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".leases-*")
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// addr returns ip as an IPv4 address, zero when it is none or unspecified.
func addr(ip []byte) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if a = a.Unmap(); !ok || !a.Is4() || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
