package ribcl

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// SetPassword gives the user that driver_info names another password. Each script holds the credentials, so that nothing of before
// counts after it. The caller takes the new password out of what an iLO repeats.
func (d *Driver) SetPassword(ctx context.Context, f driver.Fence, n *node.Document, password string) error {
	return d.with(ctx, f, n, "set a new password", func(t *turn) error {
		_, err := t.write(users, "MOD_USER", map[string]string{"USER_LOGIN": t.a.User}, fmt.Sprintf("<PASSWORD value=\"%s\"/>", escape(password)))
		return err
	})
}
