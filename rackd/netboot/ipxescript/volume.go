package ipxescript

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// firstDrive is the number of the disk that BIOS and iPXE boot from.
const firstDrive = 0x80

// VolumeSeconds is how long a machine waits before it tries again to attach its volumes.
const VolumeSeconds = 10

// attach attaches volumes, which the instance's system then finds in the iSCSI Boot Firmware Table (iBFT), and boots the first. A
// volume is tried again for as long as it does not attach: by a new script, because what the order holds may have changed. The request
// for that says that it has failed.
func attach(b *strings.Builder, m netboot.Machine, mac string, r Ramdisk) {
	v := m.Order.Volumes
	fmt.Fprintf(b, "echo Ironyard: %s boots from its volume\n", line(label(m)))
	b.WriteString("imgfree ||\n")
	if v.Initiator != "" {
		fmt.Fprintf(b, "set initiator-iqn %s\n", word(v.Initiator))
	}
	b.WriteString("set keep-san 1\n") // the iBFT stays when iPXE hands over
	mutual := slices.ContainsFunc(v.List, func(one bootorder.Volume) bool { return one.TargetUser != "" })
	for i, one := range v.List {
		fmt.Fprintf(b, "echo Ironyard: attaching volume %s\n", line(one.Name))
		credentials(b, one, mutual)
		uris := make([]string, len(one.URIs))
		for at, u := range one.URIs {
			uris[at] = word(u)
		}
		fmt.Fprintf(b, "sanhook --drive %#x %s || goto failed\n", firstDrive+i, strings.Join(uris, " "))
	}
	if len(v.List) > 1 { // iPXE reads them again where it has to log in again
		credentials(b, v.List[0], mutual)
	}
	// The volumes are described by then.
	fmt.Fprintf(b, "sanboot --no-describe --drive %#x ||\n", firstDrive)
	b.WriteString("echo Ironyard: the volume is attached, and nothing on it starts.\n")
	// Lines that fit into 80 columns: a console breaks others within words.
	b.WriteString(":failed\necho Ironyard: the boot from volume has failed. The line above says why.\n")
	b.WriteString("echo After \"Operation not permitted\" or \"Permission denied\" the target refuses\n")
	b.WriteString("echo auth_username, auth_password or the connector's name (iqn).\n")
	fmt.Fprintf(b, "echo Trying again in %d s.\n", VolumeSeconds)
	b.WriteString("clear keep-san ||\n") // else they would stay, and their numbers would be taken
	for i := range v.List {
		fmt.Fprintf(b, "sanunhook --drive %#x ||\n", firstDrive+i)
	}
	b.WriteString("clear password ||\n")
	if mutual {
		b.WriteString("clear reverse-password ||\n")
	}
	fmt.Fprintf(b, "sleep %d\n", VolumeSeconds)
	chainTo(b, append([]Server{r.Server}, r.Others...), func(s Server) string { return netboot.AfterVolumeURL(scriptURL(m, mac, s)) })
}

// credentials sets those of CHAP, in hexadecimal: no byte of them can end a line, expand a variable or join commands. With mutual a
// volume of the machine has a target that shows who it is: what is set for that one is not for the others.
func credentials(b *strings.Builder, v bootorder.Volume, mutual bool) {
	set := func(name, secretName, user, secret string) {
		if user == "" {
			fmt.Fprintf(b, "clear %s ||\nclear %s ||\n", name, secretName)
			return
		}
		fmt.Fprintf(b, "set %s:hex %s\nset %s:hex %s\n", name, hex(user), secretName, hex(secret))
	}
	set("username", "password", v.User, v.Secret)
	if mutual {
		set("reverse-username", "reverse-password", v.TargetUser, v.TargetSecret)
	}
}

// hex is a text as iPXE reads it: bytes with colons between.
func hex(text string) string {
	bytes := make([]string, len(text))
	for i := range len(text) {
		bytes[i] = fmt.Sprintf("%02x", text[i])
	}
	return strings.Join(bytes, ":")
}
