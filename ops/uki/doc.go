// Package uki makes unified kernel images: one UEFI program that holds a kernel, its initramfs and its command line, and that one
// signature covers. Firmware starts it without a boot loader.
//
// It owns the layout of the program (PE32+) and the signature (Authenticode with RSA and SHA-256, which is what UEFI 2.10, section
// 32.2.4, has firmware check). It imports nothing of the project. Invariants: the same parts, key and certificate give the same bytes;
// a program that cannot be laid out is refused, never written cut.
package uki
