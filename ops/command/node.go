package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"golang.org/x/term"

	"github.com/ironyard/ironyard/ops/terminal"
)

type nodeCommand struct {
	Console nodeConsole `cmd:"" help:"Open the console of a node: a serial one in this terminal, a graphical one for viewers of VNC (--listen). Credentials are those of the OS_* variables, as for baremetal."`
}

type nodeConsole struct {
	Node string `arg:"" help:"Name or UUID of the node."`
	Log  bool   `help:"Show what the machine wrote last, up to 256 KiB, and end."`
	Read bool   `help:"Only look: nothing is typed into the console."`

	Listen string `help:"Listen here for viewers of VNC, and give each a session of the node's graphical console. A loopback address: who reaches it types with your rights." placeholder:"127.0.0.1:5900"`
}

// Run opens the console.
func (c nodeConsole) Run(ctx context.Context) error {
	target, err := apiTarget(ctx)
	if err != nil {
		return err
	}
	target.Node = c.Node
	if c.Log {
		return terminal.Log(ctx, target, os.Stdout)
	}
	info, err := terminal.Show(ctx, target)
	switch {
	case err != nil:
		return err
	case c.Listen != "":
		return c.forward(ctx, target, info)
	case info.Graphical():
		return fmt.Errorf("the console of %s is a graphical one: run `ironyard node console --listen 127.0.0.1:5900 %s` and connect a viewer of VNC to it, or open %s", c.Node, c.Node, info.Console.URL)
	}
	conn, err := terminal.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	if c.Read {
		return terminal.Attach(ctx, conn, nil, os.Stdout)
	}
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		before, err := term.MakeRaw(fd)
		if err != nil {
			return err
		}
		defer term.Restore(fd, before)
		fmt.Fprintf(os.Stderr, "Console of %s. %s\r\n", c.Node, terminal.Help)
	}
	return terminal.Attach(ctx, conn, os.Stdin, os.Stdout)
}

// forward lets viewers of VNC connect.
func (c nodeConsole) forward(ctx context.Context, target terminal.Target, info terminal.Info) error {
	at, err := netip.ParseAddrPort(c.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %q: give an address and a port, such as 127.0.0.1:5900", c.Listen)
	case !at.Addr().IsLoopback():
		return fmt.Errorf("--listen %s is no loopback address: who reaches it would type with your rights. To reach it from elsewhere, use ssh -L", c.Listen)
	case !info.Enabled:
		return fmt.Errorf("the console of %s is not enabled: run `baremetal node console enable %s`", c.Node, c.Node)
	case !info.Graphical():
		return fmt.Errorf("the console of %s is no graphical one (its type is %q): leave out --listen", c.Node, info.Console.Type)
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "The console of %s is at %s for viewers of VNC, until this command ends.\n", c.Node, l.Addr())
	return terminal.Forward(ctx, target, l, func(text string) { fmt.Fprintln(os.Stderr, text) })
}

// apiTarget reads the OS_* variables that Ironic's clients read: OS_AUTH_TYPE none or http_basic with OS_ENDPOINT, else
// Keystone's.
func apiTarget(ctx context.Context) (terminal.Target, error) {
	t := terminal.Target{Base: os.Getenv("OS_ENDPOINT"), Header: http.Header{}}
	if t.Base == "" {
		t.Base = os.Getenv("OS_ENDPOINT_OVERRIDE")
	}
	client, err := apiClient()
	if err != nil {
		return t, err
	}
	t.Client = client
	switch kind := os.Getenv("OS_AUTH_TYPE"); kind {
	case "none":
	case "http_basic":
		pair := os.Getenv("OS_USERNAME") + ":" + os.Getenv("OS_PASSWORD")
		t.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	default:
		return keystoneTarget(ctx, t)
	}
	if t.Base == "" {
		return t, errors.New("set OS_ENDPOINT to the URL of the API, such as http://127.0.0.1:6385, and OS_AUTH_TYPE")
	}
	return t, nil
}

// apiClient trusts the authorities in the file of OS_CACERT, besides the system's.
func apiClient() (*http.Client, error) {
	file := os.Getenv("OS_CACERT")
	if file == "" {
		return http.DefaultClient, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("OS_CACERT: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("OS_CACERT: %s holds no certificate", file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	return &http.Client{Transport: transport}, nil
}

// keystoneTarget gets a token, and the endpoint unless it is given.
func keystoneTarget(ctx context.Context, t terminal.Target) (terminal.Target, error) {
	opts, err := openstack.AuthOptionsFromEnv()
	if err != nil {
		return t, fmt.Errorf("OS_AUTH_TYPE is neither none nor http_basic, and Keystone's variables are not complete: %w", err)
	}
	provider, err := openstack.NewClient(opts.IdentityEndpoint)
	if err != nil {
		return t, err
	}
	provider.HTTPClient = *t.Client
	if err := openstack.Authenticate(ctx, provider, opts); err != nil {
		return t, fmt.Errorf("ask Keystone at %s for a token: %w", opts.IdentityEndpoint, err)
	}
	if t.Base == "" {
		if t.Base, err = provider.EndpointLocator(gophercloud.EndpointOpts{Type: "baremetal", Region: os.Getenv("OS_REGION_NAME"), Availability: gophercloud.AvailabilityPublic}); err != nil {
			return t, fmt.Errorf("find the API in Keystone's catalog: %w", err)
		}
	}
	t.Header.Set("X-Auth-Token", provider.Token())
	return t, nil
}
