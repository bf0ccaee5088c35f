package redfish

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// webSocket opens a WebSocket at a path of the BMC, with the session of the other calls. Its connection is its own. The caller has
// the BMC's turn.
func (d *Driver) webSocket(ctx context.Context, f driver.Fence, b *session, a account, path string) (serialline.Stream, error) {
	o := d.pool.opts
	config, err := a.trust(o).TLS()
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	switch open, err := b.client.GetSession(); {
	case b.token && err != nil:
		return nil, err
	case b.token:
		header.Set("X-Auth-Token", open.Token)
	case a.user != "":
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.user+":"+a.password)))
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: outbound.Dialer(o.ConnectTimeout, o.Networks.Check).DialContext, TLSClientConfig: config,
		TLSHandshakeTimeout: o.ConnectTimeout, ResponseHeaderTimeout: o.ReadTimeout, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	dial, cancel := context.WithTimeout(ctx, o.ConnectTimeout+o.ReadTimeout)
	defer cancel()
	alone := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	conn, resp, err := websocket.Dial(dial, a.endpoint+path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport, CheckRedirect: alone},
		HTTPHeader: header, Subprotocols: []string{"binary"}, CompressionMode: websocket.CompressionDisabled})
	switch {
	case err == nil:
		return serialline.WebSocket(conn), nil
	case resp == nil:
		return nil, &bmc.Lost{Err: err}
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, &bmc.Failure{Class: bmc.Unsupported, Said: fmt.Sprintf("at %s with no WebSocket of RFC 6455 (%v)", path, err)}
	}
	return nil, &schemas.Error{HTTPReturnedStatusCode: resp.StatusCode, Message: "there is no WebSocket at " + path + " for this user"}
}
