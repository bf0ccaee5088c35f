package snmpclient

import (
	"crypto/sha256"
	"net"
	"strconv"
	"strings"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

const (
	// ShortestKey is how many characters a key of version 3 has at least (RFC 3414, section 11.2).
	ShortestKey = 8
	// LongestCommunity is how many gosnmp can write.
	LongestCommunity = 127
)

// Target is an SNMP agent and how it is reached, as a node's driver_info has it.
type Target struct {
	Host    string
	Port    uint16
	Version gosnmp.SnmpVersion

	// Read and Write are the communities of versions 1 and 2c.
	Read, Write string

	// User and what follows are of version 3.
	User             string
	Auth             gosnmp.SnmpV3AuthProtocol
	Priv             gosnmp.SnmpV3PrivProtocol
	AuthKey, PrivKey string
	// Engine and Context choose the objects of an agent that has several sets of them; empty: its own.
	Engine, Context string

	// Names are the fields of driver_info that errors name.
	Names Names
}

// Names are the fields of driver_info that an operator corrects. Those that a driver does not have are empty.
type Names struct {
	bmc.Fields
	// Read and Write are the fields of the communities; Contexts those of the context and its engine.
	Read, Write, Contexts string
}

// Address is the agent's. Calls to one address take turns.
func (t Target) Address() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// Secrets stand in no text.
func (t Target) Secrets() []string { return []string{t.Read, t.Write, t.AuthKey, t.PrivKey} }

// Account is the target as a bmc.Pool knows it. Its sum changes with all that a session depends on.
func (t Target) Account() bmc.Account {
	all := []string{t.Address(), strconv.Itoa(int(t.Version)), t.Read, t.Write, t.User, strconv.Itoa(int(t.Auth)), strconv.Itoa(int(t.Priv)),
		t.AuthKey, t.PrivKey, t.Engine, t.Context}
	return bmc.Account{Address: t.Address(), Sum: sha256.Sum256([]byte(strings.Join(all, "\x00")))}
}
