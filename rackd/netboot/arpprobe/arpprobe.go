// Package arpprobe asks a network whether IPv4 addresses are in use, by ARP probes (RFC 5227, section
// 2.1.1): hosts answer them also where a firewall drops pings.
//
// It imports nothing of the project. It needs the right to raw packets (CAP_NET_RAW), and reaches the
// interface's own network only, no machines behind relays.
package arpprobe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/packet"
)

const (
	// Wait is how long one call of Probe takes.
	Wait = 400 * time.Millisecond
	// again is when each address is asked for a second time: the first probe may be lost.
	again = 150 * time.Millisecond

	protocolARP = 0x0806
	frameSize   = 14 + 28
)

// Prober probes on one interface. Safe for concurrent use.
type Prober struct{ Interface string }

// Probe returns those of the addresses that are in use, each with the MAC address that says so. It takes
// Wait.
func (p Prober) Probe(ctx context.Context, addresses []netip.Addr) (map[netip.Addr]string, error) {
	i, err := net.InterfaceByName(p.Interface)
	if err != nil {
		return nil, fmt.Errorf("ARP probe on %s: %w", p.Interface, err)
	}
	conn, err := packet.Listen(i, packet.Raw, protocolARP, nil)
	if err != nil {
		return nil, fmt.Errorf("ARP probe on %s: %w", p.Interface, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	begun := time.Now()
	if err := conn.SetReadDeadline(begun.Add(Wait)); err != nil {
		return nil, fmt.Errorf("ARP probe on %s: %w", p.Interface, err)
	}
	wanted := map[netip.Addr]bool{}
	for _, a := range addresses {
		wanted[a] = true
	}
	ask := func() error {
		for _, a := range addresses {
			if _, err := conn.WriteTo(request(i.HardwareAddr, a), &packet.Addr{HardwareAddr: broadcast}); err != nil {
				return fmt.Errorf("ARP probe for %s on %s: %w", a, p.Interface, err)
			}
		}
		return nil
	}
	if err := ask(); err != nil {
		return nil, err
	}
	second := time.AfterFunc(again, func() { _ = ask() }) // the first one has gone out: what fails now shows in the next call
	defer second.Stop()
	used := map[netip.Addr]string{}
	for buf := make([]byte, 1514); ; {
		n, _, err := conn.ReadFrom(buf)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return used, nil
		case err != nil:
			return nil, fmt.Errorf("ARP probe on %s: %w", p.Interface, err)
		}
		if a, mac, ok := sender(buf[:n]); ok && wanted[a] && !bytes.Equal(mac, i.HardwareAddr) {
			used[a] = mac.String()
		}
	}
}

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// request is a frame with an ARP request for a, from no address (RFC 826).
func request(mac net.HardwareAddr, a netip.Addr) []byte {
	b := append(make([]byte, 0, frameSize), broadcast...)
	b = append(b, mac...)
	b = binary.BigEndian.AppendUint16(b, protocolARP)
	b = binary.BigEndian.AppendUint16(b, 1)      // Ethernet
	b = binary.BigEndian.AppendUint16(b, 0x0800) // IPv4
	b = append(b, 6, 4, 0, 1)                    // lengths of the addresses; a request
	b = append(b, mac...)
	b = append(b, 0, 0, 0, 0)
	b = append(b, make([]byte, 6)...)
	return append(b, a.AsSlice()...)
}

// sender is which host has sent an ARP frame, of whichever kind: it uses that address. The probe of another
// host, which names no sender, uses none: other rackds of the segment probe the same range.
func sender(frame []byte) (netip.Addr, net.HardwareAddr, bool) {
	if len(frame) < frameSize || binary.BigEndian.Uint16(frame[12:]) != protocolARP || binary.BigEndian.Uint16(frame[16:]) != 0x0800 || frame[18] != 6 || frame[19] != 4 {
		return netip.Addr{}, nil, false
	}
	from, mac := netip.AddrFrom4([4]byte(frame[28:32])), net.HardwareAddr(bytes.Clone(frame[22:28]))
	return from, mac, !from.IsUnspecified()
}
