package libvirt

import (
	"errors"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// answered is libvirt's refusal as the contract sorts it, nil for an error that is none.
func answered(err error) error {
	refused, ok := errors.AsType[golibvirt.Error](err)
	if !ok {
		return nil
	}
	f := &bmc.Failure{Said: fmt.Sprintf("%s (error %d)", refused.Message, refused.Code)}
	switch golibvirt.ErrorNumber(refused.Code) {
	case golibvirt.ErrNoDomain:
		f.Class = bmc.Invalid
		f.Said += fmt.Sprintf("; check %s", fieldDomain)
	case golibvirt.ErrNoSupport:
		f.Class = bmc.Unsupported
	case golibvirt.ErrOperationDenied, golibvirt.ErrAccessDenied:
		f.Class = bmc.Denied
	case golibvirt.ErrAuthFailed, golibvirt.ErrAuthCancelled, golibvirt.ErrAuthUnavailable:
		f.Class = bmc.Denied
		return bmc.RefusedLogin(f)
	case golibvirt.ErrOperationTimeout:
		f.Class = bmc.Busy
	}
	return f
}

// unanswered sorts what a connection ended with.
func unanswered(err error) error {
	if said := answered(err); said != nil {
		return said
	}
	if _, broken := errors.AsType[*bmc.Failure](err); broken {
		return err
	}
	return lost(err)
}

func lost(err error) error {
	if err == nil {
		return nil
	}
	return &bmc.Lost{Err: err}
}
