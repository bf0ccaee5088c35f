package ilo

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/credential"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// resetCredential is Ironic's name of the step that gives the account of the iLO another password.
const resetCredential = "reset_ilo_credential"

// longestPassword is how many characters an iLO takes.
const longestPassword = 39

// resetPriority is the step's in automated cleanings, Ironic's default. It runs by itself where the node asks for it.
const resetPriority = 30

// credentialSteps are the step of cleanings and that of deploys, which runs only if it is asked for.
func credentialSteps(n *node.Document, change credential.Change) []driver.Step {
	step := func(in driver.Flows) driver.Step {
		return driver.Step{Interface: "management", Name: resetCredential, In: in, Kind: driver.Reattachable, Retries: 4, Pause: 10 * time.Second, NoRamdisk: true, ReplacesSecrets: true,
			Takes: map[string]driver.Argument{fieldPassword: {Description: "Password for the user that driver_info ilo_username names; ilo_password of driver_info becomes the same. " +
				"Left out: that of driver_info ilo_change_password, which is removed then."}},
			Check: func(n *node.Document, args map[string]any) error { _, err := newPassword(n, args); return err },
			Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				password, err := newPassword(t.Node, t.Args)
				if kept, _, unread := t.Secrets.Replacing(fieldPassword); kept != "" && unread == nil {
					password, err = kept, nil // the iLO may have it, whether driver_info still asks for it or not
				}
				if count := len([]rune(password)); err == nil && count > longestPassword {
					err = driver.Refuse("The new password has %d characters. An iLO takes %d at most.", count, longestPassword)
				}
				if err != nil {
					return driver.Outcome{}, err
				}
				return change.Run(ctx, t, password)
			}}
	}
	clean := step(driver.InClean)
	if n.DriverString(fieldNewPassword) != "" {
		clean.Priority = resetPriority
	}
	return []driver.Step{clean, step(driver.InDeploy)}
}

// newPassword is what is asked for. It may be sealed when it is checked.
func newPassword(n *node.Document, args map[string]any) (string, error) {
	given, asked := args[fieldPassword]
	password, is := given.(string)
	switch {
	case asked && (!is || password == ""):
		return "", driver.Refuse("Value of '%s' must be a string. Step '%s' is not executed for %s.", fieldPassword, resetCredential, n.UUID)
	case !asked:
		password = n.DriverString(fieldNewPassword)
	}
	if password == "" {
		return "", driver.Refuse("Missing '%s' parameter in driver_info, and no argument '%s' is given. Step '%s' is not executed for %s.", fieldNewPassword, fieldPassword, resetCredential, n.UUID)
	}
	return password, nil
}

// credential is how an iLO that speaks Redfish gets another password.
func (m Management) credential() credential.Change {
	return credential.Change{Field: fieldPassword, Asks: fieldNewPassword, Tell: m.tellPassword,
		Accepts: func(ctx context.Context, n *node.Document) error {
			return m.Turn(ctx, nil, n, "log in to see whether the iLO takes the password", func(*redfish.Turn) error { return nil })
		}}
}

// tellPassword gives the account with the node's user name another password.
func (m Management) tellPassword(ctx context.Context, f driver.Fence, n *node.Document, password string) error {
	user := n.DriverString(fieldUser)
	return redfish.Hide(password, m.Turn(ctx, f, n, "set a new password", func(turn *redfish.Turn) error {
		var root struct{ AccountService redfish.Link }
		if err := turn.Read("/redfish/v1/", &root); err != nil {
			return err
		}
		var service struct{ Accounts redfish.Link }
		if root.AccountService.Path == "" {
			return fmt.Errorf("it shows no account service: %w", driver.ErrUnsupported)
		}
		if err := turn.Read(root.AccountService.Path, &service); err != nil {
			return err
		}
		var list struct{ Members []redfish.Link }
		if service.Accounts.Path == "" {
			return fmt.Errorf("it shows no accounts: %w", driver.ErrUnsupported)
		}
		if err := turn.Read(service.Accounts.Path, &list); err != nil {
			return err
		}
		for _, l := range list.Members {
			var account struct{ UserName string }
			if err := turn.Read(l.Path, &account); err != nil {
				return err
			}
			if account.UserName == user {
				_, err := turn.Change(l.Path, map[string]any{"Password": password})
				return err
			}
		}
		return fmt.Errorf("no account found with username: %s (a directory has it, perhaps): %w", user, driver.ErrInvalid)
	}))
}
