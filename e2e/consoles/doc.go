// Package consoles has the tests of consoles by programs that have nothing of this project in them. sshd and websockify carry serial ones,
// behind a double of a BMC's Redfish service; vncsnapshot takes the picture of a graphical one, which QEMU serves. Two go the whole
// way, from a person's WebSocket or viewer through central and rackd to the machine.
//
// They need root and Debian's packages (ops/setup), and run with IRONYARD_E2E=1.
package consoles
