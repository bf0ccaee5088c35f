package runner

import (
	"fmt"
	"maps"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Media is where this rackd serves the media that ramdisks boot from.
type Media interface {
	// Problem says why no medium made here starts on machines of a boot mode; nil: it does.
	Problem(mode string) error
	// Signed reports whether UEFI with secure boot on starts them.
	Signed() bool
	// Base is the base URL; URL that of one boot's medium below a base.
	Base() string
	// TLSBase is the base URL by TLS, for firmware; empty: there is none.
	TLSBase() string
	// TLSCertificates are those that are shown there, in PEM.
	TLSCertificates() ([]string, error)
	URL(base, group, node, root string, boot uint64) (string, error)
	// ParametersURL is the URL of one boot's parameters, for a node's own image.
	ParametersURL(base, group, node, root string, boot uint64) (string, error)
	// Served reports whether a live rackd serves media of a group's nodes at a base.
	Served(base, group string) bool
	// CheckInstance says why the medium of an instance cannot be made of its files.
	CheckInstance(n *node.Document, load bootorder.Load) error
	// InstanceURL is the URL of a medium of the instance that a work has deployed.
	InstanceURL(base, group, node, work string, part driver.InstancePart) (string, error)
}

// medium is what was published for one boot, with the facts that say what is in it.
type medium struct {
	boot  uint64
	facts map[string]string
	read  driver.Reading
}

// Medium is the boot whose medium may be read now, with the facts of the work when it was published; ok is false for
// none. It is that of the boot that was counted last or, until it is counted, of the next.
func (r *Runner) Medium() (boot uint64, facts map[string]string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.medium; m != nil && (m.boot == r.boots.Number && r.bootFact == driver.BootRamdisk || m.boot == r.boots.Next(r.epoch).Number) {
		return m.boot, m.facts, true
	}
	return 0, nil, false
}

// MediumRead notes that bytes of a boot's medium were read here, of which a machine needs so many.
func (r *Runner) MediumRead(boot uint64, bytes, needs int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.medium; m != nil && m.boot == boot {
		m.read.Bytes, m.read.Needs = m.read.Bytes+bytes, needs
	}
}

// unreadMedium tells people of a boot's medium that no machine has booted from; it is empty where that is not known.
func (r *Runner) unreadMedium() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch m := r.medium; {
	case m == nil || !m.read.Known:
	case m.read.Needs == 0:
		return "The BMC has not asked this rackd for a byte of the ramdisk's medium: does it reach this rackd, and has the machine started from its virtual drive? "
	case m.read.Bytes < m.read.Needs:
		return fmt.Sprintf("Of the ramdisk's medium %.1f MB were read, and a machine that boots from it reads %.1f MB: has its virtual drive been emptied? ", float64(m.read.Bytes)/1e6, float64(m.read.Needs)/1e6)
	}
	return ""
}

// InstanceFacts are the facts of the work from which the media of the instance were published, or ended, last; ok is false where this
// work has done neither.
func (r *Runner) InstanceFacts() (facts map[string]string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.instance, r.instance != nil
}

// media is the server of media as this work's steps see it, nil for none.
func (r *Runner) media() driver.Media {
	if r.deps.Media == nil {
		return nil
	}
	return publisher{r.deps.Media, r}
}

// publisher implements driver.Media. Only the step that runs may call it.
type publisher struct {
	Media
	r *Runner
}

// Publish announces the medium of the boot that the next count gives: a BMC may read it before that count is written.
func (p publisher) Publish(base string) (string, error) {
	known := base == "" || base == p.Base() || base == p.TLSBase()
	return p.publish(base, "the ramdisk's medium", p.URL, driver.Reading{Known: known})
}

// PublishParameters announces the parameters of that boot. How much a machine reads of them says nothing of its boot.
func (p publisher) PublishParameters(base string) (string, error) {
	return p.publish(base, "the medium of the ramdisk's parameters", p.ParametersURL, driver.Reading{})
}

func (p publisher) publish(base, what string, urlOf func(base, group, node, root string, boot uint64) (string, error), read driver.Reading) (string, error) {
	r := p.r
	r.mu.Lock()
	next := r.boots.Next(r.epoch).Number
	r.mu.Unlock()
	if base == "" {
		base = p.Base()
	}
	url, err := urlOf(base, r.node.Group, r.node.UUID, r.root, next)
	if err != nil {
		return "", fmt.Errorf("node %s: publish %s: %w", r.node.Label(), what, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.medium = &medium{next, maps.Clone(r.task.Facts), read}
	return url, nil
}

// Reading implements driver.Media.
func (p publisher) Reading() driver.Reading {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.r.medium == nil {
		return driver.Reading{}
	}
	return p.r.medium.read
}

// Withdraw ends what was published.
func (p publisher) Withdraw() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.medium = nil
}

// Served implements driver.Media.
func (p publisher) Served(base string) bool { return p.Media.Served(base, p.r.node.Group) }

// InstanceURL implements driver.Media.
func (p publisher) InstanceURL(base, work string, part driver.InstancePart) (string, error) {
	return p.Media.InstanceURL(base, p.r.node.Group, p.r.node.UUID, work, part)
}

// PublishInstance implements driver.Media: a BMC may read before the next checkpoint is written.
func (p publisher) PublishInstance() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.instance = maps.Clone(p.r.task.Facts)
}

// WithdrawInstance implements driver.Media.
func (p publisher) WithdrawInstance() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.instance = map[string]string{}
}
