package machine

import (
	"context"
	"sync"

	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// drives are the machine's CD drive and its USB stick. Nothing is fetched before the machine starts.
type drives struct {
	mu        sync.Mutex
	cd, stick drive
}

// drive is a drive by the URL of what is in it.
type drive struct {
	image      string
	unreadable error // as the last start from it found
}

var (
	_ vbmc.MediaDrive = (*Machine)(nil)
	_ vbmc.StickDrive = (*Machine)(nil)
)

// Medium implements vbmc.MediaDrive.
func (m *Machine) Medium() (image string, problem error) { return m.drives.in(&m.drives.cd) }

// InsertMedium implements vbmc.MediaDrive.
func (m *Machine) InsertMedium(_ context.Context, image string) error {
	return m.drives.put(&m.drives.cd, image)
}

// EjectMedium implements vbmc.MediaDrive.
func (m *Machine) EjectMedium(context.Context) error { return m.drives.put(&m.drives.cd, "") }

// Stick implements vbmc.StickDrive.
func (m *Machine) Stick() (image string, problem, err error) {
	image, problem = m.drives.in(&m.drives.stick)
	return image, problem, nil
}

// InsertStick implements vbmc.StickDrive.
func (m *Machine) InsertStick(_ context.Context, image string) error {
	return m.drives.put(&m.drives.stick, image)
}

// EjectStick implements vbmc.StickDrive.
func (m *Machine) EjectStick(context.Context) error { return m.drives.put(&m.drives.stick, "") }

func (d *drives) in(of *drive) (image string, problem error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return of.image, of.unreadable
}

func (d *drives) put(into *drive, image string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	*into = drive{image: image}
	return nil
}

// read notes how a start found an image, if it is in the drive still.
func (d *drives) read(from *drive, image string, problem error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if from.image == image && image != "" {
		from.unreadable = problem
	}
}
