package sites

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Set keeps the sites of a map open. Safe for concurrent use.
type Set struct {
	*Map
	links map[string]*link // by site; the map does not change
	keys  Keys
	log   *slog.Logger
}

// NewSet returns a set that is closed until Run. connection returns the connection
// that reaches a site: one for all where the bus has one account, one each where
// every site has its own. The caller keeps the connections.
func NewSet(m *Map, connection func(site string) *nats.Conn, log *slog.Logger) *Set {
	s := &Set{Map: m, links: map[string]*link{}, keys: noKeys{}, log: log}
	for _, site := range m.sites {
		s.links[site.Name] = newLink(connection(site.Name))
	}
	return s
}

// HandOut has each site's rackds told which keys of their groups members are handed out. It is called
// before Run.
func (s *Set) HandOut(keys Keys) { s.keys = keys }

// Conn returns the connection that reaches a group's site, or an *AwayError.
func (s *Set) Conn(group string) (*nats.Conn, error) {
	if err := s.Away(group); err != nil {
		return nil, err
	}
	return s.links[s.SiteOf(group)].conn, nil
}

// Away returns an *AwayError while the site of a group cannot be reached, else nil.
func (s *Set) Away(group string) error {
	site := s.SiteOf(group)
	open, since, cause := s.links[site].state()
	if open {
		return nil
	}
	_, once := s.links[site].past()
	return &AwayError{Site: site, Since: since, NotYet: !once, Cause: cause}
}

// Tried reports whether a site was opened, or could not be. Before that nobody knows how it is.
func (s *Set) Tried(site string) bool {
	tried, _ := s.links[site].past()
	return tried
}

// Heard notes a sign of life of a site.
func (s *Set) Heard(site string) {
	if l := s.links[site]; l != nil {
		l.hear()
	}
}

// Status of a site.
type Status struct {
	Name string
	// Open: the site answers, its buckets and stream are there.
	Open bool
	// Since is when it became so: when it was opened, or heard of last.
	Since time.Time
	// Err is why it is not open.
	Err error
}

// Status returns how each site is, in the order of the configuration.
func (s *Set) Status() []Status {
	var list []Status
	for _, site := range s.sites {
		open, since, err := s.links[site.Name].state()
		list = append(list, Status{site.Name, open, since, err})
	}
	return list
}

// How long a site may take to say that it is there, and to be opened; and how long to
// wait before the next attempt.
const (
	answerTimeout = 2 * time.Second
	openTimeout   = 10 * time.Second
	reopenAfter   = time.Second
)

// Run opens every site and runs f on each until ctx ends. When f fails, or the site
// falls silent, it is opened again after a moment. f ends when its context does, and
// runs once at a time on each site.
func (s *Set) Run(ctx context.Context, f func(ctx context.Context, site *bus.Site) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, site := range s.sites {
		g.Go(func() error {
			told := ""
			for ctx.Err() == nil {
				err := s.once(ctx, site, f)
				if ctx.Err() == nil && err.Error() != told { // a cut may last for hours
					told = err.Error()
					s.log.Warn("site is not available, trying again", "site", site.Name, "error", err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(reopenAfter):
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *Set) once(ctx context.Context, site Site, f func(context.Context, *bus.Site) error) error {
	l := s.links[site.Name]
	b, err := s.open(ctx, site, l.conn)
	if err != nil {
		l.lose(err)
		return err
	}
	l.hear()
	if l.found() {
		s.log.Info("site is open", "site", site.Name)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := listen(ctx, l.lastHeard, func(ctx context.Context) error { return l.ask(ctx, b) }, l.hear)
		if ctx.Err() == nil {
			l.lose(err)
		}
		return err
	})
	g.Go(func() error { keepGroups(ctx, s.Map, s.keys, b, s.log); return nil })
	g.Go(func() error { keepConsoles(ctx, site.Settings, b, s.log); return nil })
	g.Go(func() error {
		if err := f(ctx, b); err != nil {
			return err
		}
		return errors.New("its work ended without an error")
	})
	return g.Wait()
}

func (s *Set) open(ctx context.Context, site Site, conn *nats.Conn) (*bus.Site, error) {
	answering, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := bus.Away(conn); err != nil {
		return nil, err
	}
	if err := bus.Answers(answering, conn, site.Name); err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	b, err := bus.Open(opening, conn, site.Name, site.Settings)
	if err != nil {
		return nil, err
	}
	return b, writeGroups(opening, s.Map, s.keys, b, s.log)
}
