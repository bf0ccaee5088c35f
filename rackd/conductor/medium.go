package conductor

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/networkdata"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// MediumOrder is what the medium of one boot holds.
type MediumOrder struct {
	Node   *node.Document
	State  provision.State
	Load   bootorder.Load
	BootID string // empty: the medium is an instance's
	// Parameters: it holds the parameters alone, for a node's own image.
	Parameters bool
	// Read takes note that bytes were read of the medium, of which a machine needs so many; nil: it is noted nowhere.
	Read func(bytes, needs int64)
}

const mediumPurpose = "ramdisk medium"

// The purposes of codes of an instance's media. Who was given one of the media is not given the other.
var instancePurposes = map[driver.InstancePart]string{driver.InstanceBoot: "instance medium", driver.InstanceDrive: "instance config drive"}

// InstanceCode names a medium of the instance that a work has deployed, in its URL.
func InstanceCode(key *seal.Key, node, work string, part driver.InstancePart) string {
	return base64.RawURLEncoding.EncodeToString(key.Code(instancePurposes[part], []byte(node), []byte(work)))
}

// MediumCode names the medium of one boot in its URL. Who was given it may read the medium, and so learns the id of the boot; it
// says neither that nor the token.
func MediumCode(key *seal.Key, node, root string, boot uint64) string {
	return base64.RawURLEncoding.EncodeToString(key.Code(mediumPurpose, []byte(node), []byte(root), fmt.Append(nil, boot)))
}

// Medium says what the medium with a code holds; ok is false where the node has no boot with that code now. It answers
// from memory, at each rackd that knows the node.
func (c *Conductor) Medium(id, code string) (o MediumOrder, ok bool) {
	n := c.cfg.Documents.Node(id)
	w := c.cfg.Documents.Work(id)
	given, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if n == nil || err != nil {
		return o, false
	}
	key := c.cfg.Keys.Of(n.Group)
	hw, err := c.cfg.Hardware.Resolve(n)
	if key == nil || err != nil {
		return o, false
	}
	if m, found := c.instanceMedium(n, hw, key, given); found {
		return m, true
	}
	maker, makes := hw.Boot().(driver.MediumMaker)
	teller, tells := hw.Boot().(driver.ParametersMaker)
	if !makes && !tells || w == nil {
		return o, false
	}
	root, facts := w.Doc.Root(), w.Doc.Checkpoint.Facts
	boot, ok := w.Doc.Checkpoint.Boot.Number, w.Doc.Open() && facts[driver.FactBoot] == driver.BootRamdisk
	r := c.runner(id)
	if r != nil {
		root = r.Root()
		boot, facts, ok = r.Medium()
	}
	if !ok || !key.CodeFits(given, mediumPurpose, []byte(id), []byte(root), fmt.Append(nil, boot)) {
		return o, false
	}
	o.BootID = key.BootID(id, root, boot)
	if r != nil {
		o.Read = func(bytes, needs int64) { r.MediumRead(boot, bytes, needs) }
	}
	n = driver.WithBootMode(n, facts)
	now := *n // its work may have gone on since central wrote it
	now.State, _ = c.state(n)
	o.Node, o.State = n, now.State
	if ok = false; makes {
		o.Load, ok = maker.Medium(&now, facts)
	}
	if !ok && tells {
		o.Load, ok = teller.Parameters(&now)
		o.Parameters = ok
	}
	return o, ok
}

// interfaces are what network_data says of a machine that is given it by its medium; nil: nothing.
func (c *Conductor) interfaces(n *node.Document) []networkdata.Interface {
	if len(n.NetworkData) == 0 {
		return nil
	}
	hw, err := c.cfg.Hardware.Resolve(n)
	if err != nil || !hw.MakesMedium(n) {
		return nil
	}
	list, err := networkdata.Parse(n.NetworkData)
	if err != nil {
		return nil
	}
	return list
}

// instance are the facts by which the media of a node's instance answer now; ok is false where they do not. An instance has them from when
// its deploy tells its BMC of them, as long as it is what the machine is to boot.
func (c *Conductor) instance(n *node.Document) (facts map[string]string, ok bool) {
	state, open := c.state(n)
	w := c.cfg.Documents.Work(n.UUID)
	if w != nil && w.Doc.Generation >= n.Generation {
		facts = w.Doc.Checkpoint.Facts // also of one that has ended: the node's document may not show its end yet
	}
	ok = state == provision.Active || open && facts[driver.FactBoot] == driver.BootInstance
	if r := c.runner(n.UUID); r != nil {
		if now, told := r.InstanceFacts(); told {
			return now, now[driver.FactBoot] == driver.BootInstance
		}
	}
	if w == nil && provision.Transient(n.State) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if p, has := c.parted[n.UUID]; has && p.before(n) {
			return p.facts, p.facts[driver.FactBoot] == driver.BootInstance
		}
	}
	return facts, ok
}

// parted is what a work has published last for an instance. Central clears a work away that has ended, and the node's document may show its
// end a little later: the machine that was started reads its medium meanwhile.
type parted struct {
	generation int64
	facts      map[string]string
}

// before reports whether a node's document does not show the end of that work.
func (p parted) before(n *node.Document) bool {
	return n != nil && provision.Transient(n.State) && p.generation >= n.Generation
}

// forgetParted forgets what a work has published that is cleared away, once the node's document shows its end, or there is none.
func (c *Conductor) forgetParted(id string) {
	c.mu.Lock()
	p, has := c.parted[id]
	c.mu.Unlock()
	if !has || p.before(c.cfg.Documents.Node(id)) { // asked without the lock: documents tell of changes under theirs
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parted[id].generation == p.generation {
		delete(c.parted, id)
	}
}

// instanceMedium is the medium that an instance boots from, if a code is its.
func (c *Conductor) instanceMedium(n *node.Document, hw *driver.Hardware, key *seal.Key, given []byte) (o MediumOrder, ok bool) {
	maker, makes := hw.Boot().(driver.InstanceMediumMaker)
	if !makes {
		return o, false
	}
	facts, ok := c.instance(n)
	work, _ := maker.InstanceMedia(n, facts)
	if !ok || work == "" || !key.CodeFits(given, instancePurposes[driver.InstanceBoot], []byte(n.UUID), []byte(work)) {
		return o, false
	}
	o.Node = driver.WithBootMode(n, facts)
	o.State, _ = c.state(n)
	o.Load, ok = maker.InstanceMedium(o.Node, facts)
	return o, ok
}

// ErrNoDrive means that no node has an instance with a config drive by that code now.
var ErrNoDrive = errors.New("no instance has a config drive with this code now")

// InstanceDrive is the config drive that the code names, and its SHA-256. It is read by open, which is called while the instance has
// it. Each rackd of the group gets the same one, or an error: it has to be the one that the deploy was given.
func (c *Conductor) InstanceDrive(ctx context.Context, id, code string) (sum string, open func() ([]byte, error), err error) {
	n := c.cfg.Documents.Node(id)
	given, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if n == nil || err != nil {
		return "", nil, ErrNoDrive
	}
	key := c.cfg.Keys.Of(n.Group)
	hw, err := c.cfg.Hardware.Resolve(n)
	if key == nil || err != nil {
		return "", nil, ErrNoDrive
	}
	maker, makes := hw.Boot().(driver.InstanceMediumMaker)
	if !makes {
		return "", nil, ErrNoDrive
	}
	facts, ok := c.instance(n)
	work, sum := maker.InstanceMedia(n, facts)
	if !ok || work == "" || sum == "" || !key.CodeFits(given, instancePurposes[driver.InstanceDrive], []byte(id), []byte(work)) {
		return "", nil, ErrNoDrive
	}
	ctx = context.WithoutCancel(ctx) // others may wait for the same reading
	instance, name := maker.DriveNames(n, facts)
	if instance == "" {
		instance, name = n.Instance(), n.Name
	}
	return sum, func() ([]byte, error) { return c.readDrive(ctx, n, key, work, sum, instance, name) }, nil
}

// The site's store forgets a config drive after a while (bus.DrivesMaxAge), or loses it. Central writes it again once a rackd misses it.
// A BMC that reads waits so long for that: some ask once only.
const (
	driveAgain   = 20 * time.Second
	driveLookFor = time.Second
)

// readDrive reads an instance's config drive from the site's store, and makes it for the instance and the name that it was made for first.
// The work stands in the node's document, which is central's.
func (c *Conductor) readDrive(ctx context.Context, n *node.Document, key *seal.Key, work, sum, instance, name string) ([]byte, error) {
	sealed, err := c.cfg.Documents.ConfigDrive(ctx, work)
	for end := time.Now().Add(driveAgain); errors.Is(err, view.ErrDriveLost) && time.Now().Before(end); {
		if err := driver.Pause(ctx, driveLookFor); err != nil {
			return nil, err
		}
		sealed, err = c.cfg.Documents.ConfigDrive(ctx, work)
	}
	if err != nil {
		return nil, fmt.Errorf("read the config drive: %w", err)
	}
	input, err := key.Open(seal.Label{Kind: seal.SentDrive, Of: n.UUID, Work: work}, sealed)
	if err != nil {
		return nil, fmt.Errorf("open the config drive: %w", err)
	}
	text, err := c.cfg.BuildDrive(ctx, input, instance, name)
	if err != nil {
		return nil, fmt.Errorf("make the config drive: %w", err)
	}
	image, err := configdrive.Image(text)
	if err != nil {
		return nil, err
	}
	if is := sha256.Sum256(image); hex.EncodeToString(is[:]) != sum {
		return nil, errors.New("the config drive is another than the one that the deploy was given: its address gives another now")
	}
	return image, nil
}
