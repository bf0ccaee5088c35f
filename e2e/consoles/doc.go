// Package consoles has the tests of serial consoles by servers that have nothing of this project in them: sshd and websockify, behind
// a double of a BMC's Redfish service. The last one goes from a person's WebSocket through central and rackd to the serial port.
//
// They need root and Debian's packages (ops/setup), and run with IRONYARD_E2E=1.
package consoles
