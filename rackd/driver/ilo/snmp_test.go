package ilo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmptest"
)

// Columns of HPE's MIBs, written down apart from the driver's: cpqDaPhyDrvSize, cpqScsiPhyDrvSize, cpqSasPhyDrvSize.
const (
	arraySize = "1.3.6.1.4.1.232.3.2.5.1.1.45."
	scsiSize  = "1.3.6.1.4.1.232.5.2.4.1.1.7."
	sasSize   = "1.3.6.1.4.1.232.5.5.2.1.1.8."
)

func newAgents(t *testing.T) *snmpclient.Reader {
	r := snmpclient.NewReader(snmpclient.ReaderOptions{Networks: redfishtest.Loopback, Pace: 1000, AnswerTimeout: time.Second, Tries: 2})
	t.Cleanup(func() { _ = r.Close(context.WithoutCancel(t.Context())) })
	return r
}

func portOf(text string) uint16 { port, _ := strconv.Atoi(text); return uint16(port) }

func TestDrivesInTheTables(t *testing.T) {
	for what, c := range map[string]struct {
		objects snmptest.Objects
		lie     func(*gosnmp.SnmpPacket) bool
		want    string
	}{
		"a Smart Array": {snmptest.Objects{arraySize + "2.0": 286102, arraySize + "2.1": 572325, arraySize + "2.10": 5, arraySize + "2": 1,
			"1.3.6.1.4.1.232.3.2.5.1.1.46.2.0": 9 << 20}, nil, "4 drives, 572325 MiB"},
		"all tables": {snmptest.Objects{arraySize + "2.0": 100, scsiSize + "1.1.0": 200, sasSize + "0.1": 300}, nil, "3 drives, 300 MiB"},
		"no table":   {snmptest.Objects{"1.3.6.1.4.1.232.5.9.1": 5}, nil, "0 drives, 0 MiB"},
		"nothing":    {nil, nil, "0 drives, 0 MiB"},
		"no sizes":   {snmptest.Objects{arraySize + "2.0": -1, arraySize + "2.1": 0, sasSize + "0.1": "large"}, nil, "0 drives, 0 MiB"},
		"half a table": {snmptest.Objects{arraySize + "2.0": 100}, func(p *gosnmp.SnmpPacket) bool {
			return p.Variables[0].Type == gosnmp.Integer
		}, "does not answer"},
		"an endless table": {snmptest.Objects{arraySize + "2.0": 100}, func() func(*gosnmp.SnmpPacket) bool {
			row := 0
			return func(p *gosnmp.SnmpPacket) bool {
				row++
				p.Variables = []gosnmp.SnmpPDU{{Name: "." + arraySize + strconv.Itoa(row), Type: gosnmp.Integer, Value: 1}}
				return true
			}
		}(), "more than 1000 rows"},
	} {
		t.Run(what, func(t *testing.T) {
			a := snmptest.Start(t, "public", c.objects)
			a.Lie(c.lie)
			// The double has no version 3, which snmpd has.
			target := snmpclient.Target{Host: "127.0.0.1", Port: portOf(a.Port()), Version: gosnmp.Version2c, Read: "public"}
			got := ""
			err := newAgents(t).Read(t.Context(), &node.Document{UUID: "u"}, "read", target, func(ctx context.Context, s *snmpclient.Session) error {
				drives, largest, err := readDrives(ctx, s)
				got = fmt.Sprintf("%d drives, %d MiB", drives, largest)
				return err
			})
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// inspected is an inspection of an iLO that tells no disk by Redfish.
func inspected(t *testing.T, d *double, drives Drives, more map[string]any) (*drivertest.Rig, error) {
	t.Helper()
	a := auto(t)
	i := AutoInspection{Auto: a, Drives: drives,
		Modern: Inspection{redfish.Inspection{Driver: a.Redfish.Driver, Capabilities: Capabilities, SizeOf: drives.Size}}}
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	for field, v := range more {
		r.Node.DriverInfo[field] = v
	}
	_, err := i.InspectSteps(r.Node)[0].Run(t.Context(), r.Task(networkboot.IPXE()))
	return r, err
}

// Without a user for SNMP none is asked, and the history says what would help.
func TestInspectionWithoutSNMP(t *testing.T) {
	r, err := inspected(t, newDouble(t), Drives{}, nil)
	if err != nil || !strings.Contains(string(r.Inv.PluginData), `"local_gb":0`) {
		t.Fatalf("%+v, %v", r.Inv, err)
	}
	if said := strings.Join(r.Phases, "\n"); !strings.Contains(said, "Set snmp_auth_user and its passwords in driver_info") {
		t.Errorf("its history is %s", said)
	}
}

// net-snmp's snmpd tells the sizes by version 3, with each pair of protocols that Ironic names.
func TestSizesWithSnmpd(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs snmpd and snmp (Debian's packages); set IRONYARD_E2E=1")
	}
	d, users := newDouble(t), ""
	for _, auth := range []string{"MD5", "SHA"} {
		for _, priv := range []string{"DES", "AES"} {
			user := "user-" + auth + "-" + priv
			users += fmt.Sprintf("createUser %s %s auth-key-12 %s priv-key-12\nrouser %s authpriv\n", user, auth, priv, user)
		}
	}
	full := portOf(snmptest.Snmpd(t, users, snmptest.Objects{arraySize + "2.0": 286102, arraySize + "2.1": 572325, sasSize + "0.1": 286102}))
	empty := portOf(snmptest.Snmpd(t, users, nil))
	fields := func(user, auth, priv string, authProtocol, privProtocol any) map[string]any {
		return map[string]any{fieldSNMPUser: user, fieldSNMPAuthPassword: auth, fieldSNMPPrivPassword: priv,
			fieldSNMPAuthProtocol: authProtocol, fieldSNMPPrivProtocol: privProtocol}
	}
	right := fields("user-SHA-AES", "auth-key-12", "priv-key-12", "SHA", "AES")
	for what, more := range map[string]map[string]any{
		"the defaults": fields("user-MD5-DES", "auth-key-12", "priv-key-12", nil, nil), "SHA and AES": right,
		"MD5 and AES": fields("user-MD5-AES", "auth-key-12", "priv-key-12", "md5", "aes"),
		"SHA and DES": fields("user-SHA-DES", "auth-key-12", "priv-key-12", "Sha", nil),
	} {
		t.Run(what, func(t *testing.T) {
			r, err := inspected(t, d, Drives{newAgents(t), full}, more)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`"local_gb":558`, `"server_model":"ProLiant DL180 Gen10"`} {
				if s := string(r.Inv.PluginData); !strings.Contains(s, want) {
					t.Errorf("%s, want %s", s, want)
				}
			}
			if said := strings.Join(r.Phases, "\n"); !strings.Contains(said, "inventory: by SNMP: 3 drives") {
				t.Errorf("its history is %s", said)
			}
		})
	}
	t.Run("no drives", func(t *testing.T) {
		r, err := inspected(t, d, Drives{newAgents(t), empty}, right)
		if err != nil || !strings.Contains(string(r.Inv.PluginData), `"local_gb":0`) {
			t.Fatalf("%+v, %v", r.Inv, err)
		}
		if said := strings.Join(r.Phases, "\n"); !strings.Contains(said, "tells the size of no disk, and SNMP neither") {
			t.Errorf("its history is %s", said)
		}
	})
	for what, c := range map[string]struct {
		more map[string]any
		is   error
		says string
	}{
		"another user": {fields("nonesuch", "auth-key-12", "priv-key-12", "SHA", "AES"),
			driver.ErrDenied, "check snmp_auth_user"},
		"another key to authenticate": {fields("user-SHA-AES", "wr0ng-key-12", "priv-key-12", "SHA", "AES"),
			driver.ErrDenied, "check snmp_auth_user and snmp_auth_prot_password"},
		"another key to encrypt": {fields("user-SHA-AES", "auth-key-12", "wr0ng-key-12", "SHA", "AES"),
			driver.ErrUnreachable, "check ilo_address and snmp_auth_priv_password"},
		"another way to authenticate": {fields("user-SHA-AES", "auth-key-12", "priv-key-12", nil, "AES"),
			driver.ErrDenied, "check snmp_auth_user and snmp_auth_prot_password"},
	} {
		t.Run(what, func(t *testing.T) {
			r, err := inspected(t, d, Drives{newAgents(t), full}, c.more)
			if !errors.Is(err, c.is) || r.Inv != nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "key-12") {
				t.Errorf("%v, inventory %v", err, r.Inv)
			}
		})
	}
}

func TestFieldsOfSNMP(t *testing.T) {
	d := redfish.New(redfish.Options{Dialect: Dialect})
	with := func(field string, value any) map[string]any {
		more := map[string]any{fieldSNMPUser: "user", fieldSNMPAuthPassword: "auth-key-12", fieldSNMPPrivPassword: "priv-key-12"}
		more[field] = value
		return more
	}
	for _, c := range []struct {
		more map[string]any
		says string
	}{
		{nil, ""}, {with(fieldSNMPUser, "other"), ""}, {with(fieldSNMPAuthProtocol, "sha"), ""}, {with(fieldSNMPPrivProtocol, "AES"), ""},
		{with(fieldSNMPAuthPassword, ""),
			"The following required SNMP parameters are missing from the node's driver_info: ['snmp_auth_prot_password']"},
		{map[string]any{fieldSNMPUser: "user"}, "missing from the node's driver_info: ['snmp_auth_prot_password', 'snmp_auth_priv_password']"},
		{with(fieldSNMPPrivPassword, "s3cret"), "snmp_auth_priv_password is too short. An iLO takes 8 characters and more."},
		{with(fieldSNMPAuthProtocol, "sha256"), "Invalid value sha256 given for driver_info parameter snmp_auth_protocol. Give MD5 or SHA."},
		{with(fieldSNMPPrivProtocol, "3des"), "Invalid value 3des given for driver_info parameter snmp_auth_priv_protocol. Give AES or DES."},
		{with(fieldSNMPUser, nil), "snmp_auth_prot_password is set, and snmp_auth_user is not"},
		{map[string]any{fieldSNMPPrivProtocol: "AES"}, "snmp_auth_priv_protocol is set, and snmp_auth_user is not"},
	} {
		n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: "192.0.2.1", fieldUser: "Administrator", fieldPassword: "pw"}}
		for field, v := range c.more {
			n.DriverInfo[field] = v
		}
		err := d.Validate(n)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v, want %q", c.more, err, c.says)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "key-12")) {
			t.Errorf("a secret stands in %v", err)
		}
	}
	for _, secret := range []string{fieldSNMPAuthPassword, fieldSNMPPrivPassword} {
		if !seal.IsSecret(secret) {
			t.Errorf("%s is not masked", secret)
		}
	}
}
