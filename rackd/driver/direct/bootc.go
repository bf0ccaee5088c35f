package direct

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/imagefields"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
)

// Bootc is the deploy interface "bootc": the instance is a container's image, which the ramdisk's agent pulls from its registry, and which
// writes itself to the disk (bootc install to-disk). That takes a ramdisk with podman, Ironyard's or ironic-python-agent's; another
// is refused before a disk is touched. The container is its user's, and may find what podman was given. So credentials of driver_info,
// whose holder may be another, never reach it. Immutable, safe for concurrent use.
type Bootc struct{ Interface }

// bootcStep is the agent's step, and Ironic's.
const bootcStep = agentapi.StepBootc

// diskFormatBootc of image_disk_format says that a registry's image is a container. Ironic asks the registry instead.
const diskFormatBootc = "bootc"

// InstanceFields names what is read or refused of instance_info, here or by the agent.
func (Bootc) InstanceFields() []string {
	return append([]string{"image_source", "image_disk_format", "bootc_authorized_keys", "bootc_tpm2_luks", instancefiles.ISO, "root_device", fieldDrive, fieldPreserveEphemeral}, imagefields.SecretFields()...)
}

// Validate asks for an image of a registry. The words of the first refusal are Ironic's.
func (Bootc) Validate(n *node.Document) error {
	source := n.InstanceString("image_source")
	if !strings.HasPrefix(source, "oci://") {
		return driver.Refuse("Invalid image href %s. The deploy interface bootc installs a container: give image_source as oci://REGISTRY/NAME:TAG.", imageShown(source))
	}
	if f := n.InstanceString("image_disk_format"); f != "" && f != diskFormatBootc {
		return fmt.Errorf("node %s: image_disk_format is %.40q, and the deploy interface bootc installs containers: give bootc, or remove it: %w", n.Label(), f, driver.ErrInvalid)
	}
	_, err := pullSecret(n)
	return err
}

// imageShown is an address without what may be secret.
func imageShown(source string) string {
	source, _, _ = strings.Cut(source, "?")
	if _, after, has := strings.Cut(source, "@"); has && !strings.HasPrefix(after, "sha") {
		return "…@" + after
	}
	return source
}

// pullSecret is the user and the password for the registry as podman keeps them, in base64 once more, as ironic-python-agent takes
// it; nil: there is none.
func pullSecret(n *node.Document) (any, error) {
	asked := *n
	asked.InstanceInfo = maps.Clone(n.InstanceInfo)
	delete(asked.InstanceInfo, "image_disk_format") // of a disk's image
	src, wrong := imagefields.Source(&asked)
	if len(wrong) > 0 {
		return nil, fmt.Errorf("node %s: %s: %w", n.Label(), strings.Join(wrong, "; "), driver.ErrInvalid)
	}
	if src.Authorization == "" {
		return nil, nil
	}
	asked.DriverInfo = nil
	if own, _ := imagefields.Source(&asked); own.Authorization == "" {
		return nil, fmt.Errorf("node %s: driver_info has credentials for the registry, and the container of the instance's user is started beside them, with all rights: give image_pull_secret of instance_info, or take the registry out of image_server_hosts: %w",
			n.Label(), driver.ErrInvalid)
	}
	basic, is := strings.CutPrefix(src.Authorization, "Basic ")
	if !is {
		return nil, fmt.Errorf("node %s: the credentials of its image are a token, and podman takes a user and a password: give image_pull_secret as user:password: %w", n.Label(), driver.ErrInvalid)
	}
	return base64.StdEncoding.EncodeToString([]byte(basic)), nil
}

// Supports reports whether the deploy interface "autodetect" is to be this one.
func (Bootc) Supports(n *node.Document) bool {
	return strings.HasPrefix(n.InstanceString("image_source"), "oci://") && n.InstanceString("image_disk_format") == diskFormatBootc
}

// Adopts implements driver.Adopter: the machine boots its disk.
func (Bootc) Adopts(*node.Document) bool { return false }

// ValidateWith checks what the instance asks for besides.
func (Bootc) ValidateWith(h *driver.Hardware, n *node.Document) error {
	return errors.Join(driver.ValidateInstance(h, n), refuseISO(n), driver.RefusePreserving(n, "a container that installs itself clears the disk"))
}

// DeploySteps are those of a custom deploy, with Ironic's two between.
func (b Bootc) DeploySteps(n *node.Document) (steps []driver.Step) {
	install := step(bootcStep, 80, driver.Reattachable, b.install)
	install.Abortable = true
	for _, s := range Custom(b).DeploySteps(n) {
		switch s.Name {
		case "deploy":
			up := s.Run
			s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				out, err := up(ctx, t)
				if _, waits := out.Waiting(); err == nil && !waits {
					_, err = b.offers(t)
				}
				return out, err
			}
			steps = append(steps, s, install)
			continue
		case "prepare_instance_boot":
			s.Name = "set_boot_to_disk"
		}
		steps = append(steps, s)
	}
	return steps
}

// offers returns the agent's step, or says that this agent has none.
func (b Bootc) offers(t *driver.Task) (offered, error) {
	steps, _, err := b.Offered(t.Facts, driver.InDeploy)
	if err != nil {
		return offered{}, err
	}
	if !slices.ContainsFunc(steps, func(s driver.Step) bool { return s.Interface == "deploy" && s.Name == bootcStep }) {
		return offered{}, fmt.Errorf("node %s: the agent in its ramdisk has no step deploy.%s, so it cannot install containers. A ramdisk has it that was built by ironyard ramdisk build --podman, or one of ironic-python-agent with podman: give it to rackd, or name it in driver_info deploy_kernel and deploy_ramdisk. Nothing was written: %w",
			t.Node.Label(), bootcStep, driver.ErrUnsupported)
	}
	// It wipes the disk first, so that an agent that has started again may begin once more.
	return offered{Interface: "deploy", Step: bootcStep, Repeatable: true}, nil
}

// install has the agent pull the image and run it.
func (b Bootc) install(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	o, err := b.offers(t)
	if err != nil {
		return driver.Outcome{}, err
	}
	secret, err := pullSecret(t.Node)
	if err != nil {
		return driver.Outcome{}, err
	}
	drive, err := t.ConfigDrive(ctx)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: get the config drive: %w", t.Node.Label(), err)
	}
	asked, n := *t, *t.Node
	n.InstanceInfo = maps.Clone(n.InstanceInfo)
	for _, field := range imagefields.SecretFields() {
		delete(n.InstanceInfo, field) // the step has its own
	}
	asked.Node, asked.Args = &n, map[string]any{"image_source": n.InstanceString("image_source"), "configdrive": nil, "oci_pull_secret": secret}
	if drive != "" {
		asked.Args["configdrive"] = drive
	}
	asked.ConfigDrive = func(context.Context) (string, error) { return "", nil } // it is among the arguments
	return b.execute(ctx, &asked, o, driver.InDeploy)
}
