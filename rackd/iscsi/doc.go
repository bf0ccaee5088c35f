// Package iscsi is an iSCSI initiator in user space: one session with one connection to one disk (RFC 7143, SBC-3). A
// rackd writes images by it, without root and without the kernel's initiator.
//
// It owns the protocol: login, CHAP, digests, windows, and the SCSI commands of a disk. It may import nothing of the
// project. Invariants:
//   - Where a Target has credentials, a target that asks for none is refused. So is one that does not prove the
//     secret of its own.
//   - What a target sends is bounded and checked: a wrong number, length or offset ends the session.
//   - After an error of the connection each command of the session fails with it; nothing is sent again by itself.
//   - A command that the target has put off (busy, unit attention) is sent again, a few times.
//   - No secret is in an error.
package iscsi
