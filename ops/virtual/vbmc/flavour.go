package vbmc

// Flavour is whose BMC it acts as.
type Flavour int32

// Plain is the standard's alone. The others have what the vendors' drivers ask of the boot beside it, and lack what those BMCs lack.
const (
	Plain Flavour = iota
	Dell
	HPE
)

// Be makes it the BMC of a vendor. It may be another from one request to the next.
func (b *BMC) Be(f Flavour) {
	b.flavour.Store(int32(f))
	if f != HPE {
		b.uefi.set("", false)
	}
}

// vendor is whose service it is.
func (b *BMC) vendor() string {
	if b.is(HPE) {
		return "HPE"
	}
	return b.cfg.Manufacturer
}

func (b *BMC) is(f Flavour) bool { return Flavour(b.flavour.Load()) == f }
