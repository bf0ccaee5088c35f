package dhcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// spareLines is how many lines the lease file may have beyond twice its leases.
	spareLines = 1000
	// sweepEvery is how often leases that have ended are forgotten.
	sweepEvery = time.Minute
)

// leaseFile is a log of leases, a line of JSON for each: the last of an address counts. So
// an acknowledgement costs a line however many leases there are, and those that come together
// cost one sync. Now and then the file is written afresh. An end in the middle of a line, as
// a crash leaves it, costs that line, which was not acknowledged. One goroutine uses it.
type leaseFile struct {
	path  string // empty: none
	file  *os.File
	lines int // of the file
}

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
	leases, err := parse(body)
	if err != nil {
		aside := path + ".unreadable"
		log.Error("DHCP lease file is unreadable, starting with what can be read", "file", path, "leases", len(leases), "kept as", aside, "error", err)
		if err := os.Rename(path, aside); err != nil {
			return nil, fmt.Errorf("set the unreadable DHCP leases aside: %w", err)
		}
	}
	return leases, nil
}

// parse reads the lines, or the one list that rackd wrote before there were lines. With an
// error it returns what it could read.
func parse(body []byte) (leases []lease, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return leases, json.Unmarshal(body, &leases)
	}
	whole := bytes.LastIndexByte(body, '\n') + 1 // what follows was cut off by a crash
	if whole == 0 && len(body) > 0 {
		return nil, errors.New("it has no whole line")
	}
	for i, line := range bytes.Split(body[:whole], []byte{'\n'}) {
		if len(line) == 0 {
			continue
		}
		var l lease
		if e := json.Unmarshal(line, &l); e != nil {
			err = errors.Join(err, fmt.Errorf("line %d: %w", i+1, e))
			continue
		}
		leases = append(leases, l)
	}
	return leases, err
}

// flush makes what the pool has noted since the last time last. A disk that does not take
// it costs stability across a restart, never an answer now.
func (p *pool) flush() {
	p.mu.Lock()
	p.sweep()
	news := p.news
	p.news = nil
	var all []lease // set: the file is written afresh
	if len(news) > 0 && p.log.path != "" && (p.log.file == nil || p.log.lines+len(news) > 2*len(p.byAddr)+spareLines) {
		for _, l := range p.byAddr {
			if !l.offered {
				all = append(all, l)
			}
		}
	}
	p.mu.Unlock()
	if len(news) == 0 || p.log.path == "" {
		return
	}
	var err error
	if all != nil {
		err = p.log.replace(all)
	} else if err = p.log.add(news); err != nil {
		p.log.close() // written afresh the next time
	}
	if err != nil {
		p.logger.Error("DHCP leases not saved; after a restart machines may get other addresses", "file", p.log.path, "error", err)
	}
}

// pending reports whether something waits for flush.
func (p *pool) pending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.news) > 0
}

// sweep forgets what has ended, now and then. Its caller holds mu.
func (p *pool) sweep() {
	now := p.now()
	if since := now.Sub(p.swept); since >= 0 && since < sweepEvery {
		return
	}
	p.swept = now
	for a, l := range p.byAddr {
		if !l.Until.After(now) {
			p.drop(a)
		}
	}
}

func lines(leases []lease) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b) // ends each with a newline
	for _, l := range leases {
		if err := e.Encode(l); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// add appends to the file.
func (f *leaseFile) add(leases []lease) error {
	body, err := lines(leases)
	if err != nil {
		return err
	}
	if _, err := f.file.Write(body); err != nil {
		return err
	}
	f.lines += len(leases)
	return f.file.Sync()
}

// replace writes the leases beside the file and moves them into its place.
func (f *leaseFile) replace(leases []lease) (err error) {
	f.close()
	slices.SortFunc(leases, func(a, b lease) int { return a.Address.Compare(b.Address) })
	body, err := lines(leases)
	if err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	// Who crashed while it wrote has left one behind.
	beside := "." + filepath.Base(f.path) + "-*" // other pools' files may be in the folder
	if old, err := filepath.Glob(filepath.Join(dir, beside)); err == nil {
		for _, name := range old {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	next, err := os.CreateTemp(dir, beside)
	if err != nil {
		return err
	}
	_, err = next.Write(body)
	if err = errors.Join(err, next.Sync()); err == nil {
		err = os.Rename(next.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	f.file, f.lines = next, len(leases)
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// close lets the file go; the next line is written to a fresh one.
func (f *leaseFile) close() {
	if f.file != nil {
		f.file.Close() // what is in it was synced
		f.file = nil
	}
}

// addr returns ip as an IPv4 address, zero when it is none or unspecified.
func addr(ip []byte) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if a = a.Unmap(); !ok || !a.Is4() || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
