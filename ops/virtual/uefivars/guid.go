package uefivars

import (
	"github.com/google/uuid"
)

// Vendors of the variables that this package knows.
var (
	// GlobalVendor has the boot options, PK and KEK (UEFI 2.10, section 3.3).
	GlobalVendor = uuid.MustParse("8be4df61-93ca-11d2-aa0d-00e098032b8c")
	// ImageSecurityVendor has db and dbx (UEFI 2.10, section 32.6.1).
	ImageSecurityVendor = uuid.MustParse("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
	// ISCSIInitiatorVendor has I_NAME and the attempts (gEfiIScsiInitiatorNameProtocolGuid of edk2).
	ISCSIInitiatorVendor = uuid.MustParse("59324945-ec44-4c0d-b1cd-9db139df070c")
	// ISCSIConfigVendor has the order of the attempts (gIScsiConfigGuid of edk2).
	ISCSIConfigVendor = uuid.MustParse("4b47d616-a8d6-4552-9d44-ccad2e0f4cf9")
	// SecureBootEnableVendor has edk2's switch of secure boot (gEfiSecureBootEnableDisableGuid).
	SecureBootEnableVendor = uuid.MustParse("f0a30bc7-af08-4556-99c4-001009c93a44")
	// TLSVendor has the authorities of TLS (gEfiTlsCaCertificateGuid of edk2).
	TLSVendor = uuid.MustParse("fd2340d0-3dab-4349-a6c7-3b4f12b48eae")
)

// The GUIDs of the layout.
var (
	volumeType  = uuid.MustParse("fff12b8d-7696-4c8b-a985-2747075b4f50") // gEfiSystemNvDataFvGuid
	storeType   = uuid.MustParse("aaf32c78-947b-439a-a180-2e144ec37792") // gEfiAuthenticatedVariableGuid
	workingType = uuid.MustParse("9e58292b-7c68-497d-a0ce-6500fd9f1b95") // gEdkiiWorkingBlockSignatureGuid
	certX509    = uuid.MustParse("a5c059a1-94e4-4aa7-87b5-ab155c2bf072") // EFI_CERT_X509_GUID
)

// swapped is a GUID with its first three fields in the other byte order: the
// specification stores them little-endian (UEFI 2.10, appendix A).
func swapped(g uuid.UUID) uuid.UUID {
	return uuid.UUID{g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]}
}

// guidAt reads a GUID of 16 bytes.
func guidAt(raw []byte) uuid.UUID { return swapped(uuid.UUID(raw[:16])) }

func appendGUID(raw []byte, g uuid.UUID) []byte {
	g = swapped(g)
	return append(raw, g[:]...)
}
