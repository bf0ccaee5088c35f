package machine

import (
	"context"
	"sync"

	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// drives are the machine's CD drive and its USB stick, by the URLs of what is in them. Nothing is fetched before the machine starts.
type drives struct {
	mu         sync.Mutex
	cd, stick  string
	unreadable error // of what is in the CD drive, as the last start found it
}

var (
	_ vbmc.MediaDrive = (*Machine)(nil)
	_ vbmc.StickDrive = (*Machine)(nil)
)

// Medium implements vbmc.MediaDrive.
func (m *Machine) Medium() (image string, problem error) {
	m.drives.mu.Lock()
	defer m.drives.mu.Unlock()
	return m.drives.cd, m.drives.unreadable
}

// InsertMedium implements vbmc.MediaDrive.
func (m *Machine) InsertMedium(_ context.Context, image string) error {
	m.drives.mu.Lock()
	defer m.drives.mu.Unlock()
	m.drives.cd, m.drives.unreadable = image, nil
	return nil
}

// EjectMedium implements vbmc.MediaDrive.
func (m *Machine) EjectMedium(context.Context) error {
	m.drives.mu.Lock()
	defer m.drives.mu.Unlock()
	m.drives.cd, m.drives.unreadable = "", nil
	return nil
}

// read notes how a start found an image, if it is in the drive still.
func (d *drives) read(image string, problem error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cd == image && image != "" {
		d.unreadable = problem
	}
}

// Stick implements vbmc.StickDrive.
func (m *Machine) Stick() (image string, problem, err error) {
	m.drives.mu.Lock()
	defer m.drives.mu.Unlock()
	return m.drives.stick, nil, nil
}

// InsertStick implements vbmc.StickDrive.
func (m *Machine) InsertStick(_ context.Context, image string) error {
	m.drives.mu.Lock()
	defer m.drives.mu.Unlock()
	m.drives.stick = image
	return nil
}

// EjectStick implements vbmc.StickDrive.
func (m *Machine) EjectStick(context.Context) error { return m.InsertStick(context.Background(), "") }
