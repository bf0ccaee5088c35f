package bootscript

import (
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/netboot/loaderconfig"
)

// Language is that of a boot loader: what it is told in each case.
type Language struct {
	write   func(m netboot.Machine, mac string, r ipxescript.Ramdisk) string
	unknown func(named string) string
	foreign func() string
	unheard func(m netboot.Machine, mac string, r ipxescript.Ramdisk) string
}

var ipxe = Language{ipxescript.Write, ipxescript.WriteUnknown, ipxescript.WriteForeign, ipxescript.WriteUnheard}

// The languages of boot loaders besides iPXE.
var (
	GRUB     = Language{loaderconfig.GRUB, loaderconfig.GRUBUnknown, loaderconfig.GRUBForeign, loaderconfig.GRUBUnheard}
	PXELinux = Language{loaderconfig.PXELinux, loaderconfig.PXELinuxUnknown, loaderconfig.PXELinuxForeign, loaderconfig.PXELinuxUnheard}
)
