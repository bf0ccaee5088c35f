package machine

import (
	"context"
	"errors"
)

// floppy is the drive of a floppy, as BMCs show theirs: a small disk on USB.
var floppy = usbDrive{id: "floppy", name: "the floppy", none: refused{errors.New("the machine has no floppy drive")},
	fitted: func(c Config) bool { return c.USBFloppy }, in: func(s *state) (image, problem *string) { return &s.Floppy, &s.FloppyProblem }}

// Floppy is what Medium is, of the floppy drive. A machine without one is errors.ErrUnsupported.
func (m *Machine) Floppy() (image string, problem, err error) { return m.inDrive(floppy) }

// InsertFloppy shows the image of an HTTP URL as a floppy, as InsertStick does with the stick.
func (m *Machine) InsertFloppy(ctx context.Context, image string) error {
	return m.insertInto(ctx, floppy, image)
}

// EjectFloppy takes the floppy out. It is no error that there is none.
func (m *Machine) EjectFloppy(ctx context.Context) error { return m.ejectFrom(ctx, floppy) }
