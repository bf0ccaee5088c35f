package inspection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Call is a request that a rule asks for. What it answers changes nothing: the
// inspection has been written by then.
type Call struct {
	URL     string
	Headers map[string]string
	Timeout time.Duration // of each attempt
	Retries int           // attempts after the first
}

// Bounds of what a rule may ask for.
const (
	maxCalls       = 16
	maxCallTimeout = 30 * time.Second
	maxCallRetries = 5
	callPause      = time.Second // before the first retry, then twice as long
)

// ownServer refuses the URL of a rule whose server something else than the rule and the node's row could choose: what a
// ramdisk has sent may be a stranger's, and must not send central to a host of its choice. Behind the server's name
// it may stand anywhere.
func ownServer(url string) error {
	scheme, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	for text := scheme + rest; ; {
		_, field, found := strings.Cut(text, "{")
		if !found {
			return nil
		}
		if !strings.HasPrefix(field, "node.") {
			return fmt.Errorf("the server of %.200q is chosen by {%.80s: only the rule itself and {node.…} may name it", url, field)
		}
		text = field
	}
}

// Client returns a client for calls: it follows no redirect, to whatever server.
func Client() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// noteCall notes a request for later.
func noteCall(s *Subject, args map[string]any) error {
	u, err := url.Parse(Text(args["url"]))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%.200q is no http or https URL", Text(args["url"]))
	}
	if args["proxies"] != nil {
		return errors.New("proxies cannot be set by a rule: give them to central by its environment")
	}
	if len(s.Calls) >= maxCalls {
		return fmt.Errorf("the rules ask for more than %d calls", maxCalls)
	}
	c := Call{URL: u.String(), Timeout: 5 * time.Second, Retries: 3}
	if n, ok := number(args["timeout"]); ok {
		c.Timeout = min(max(time.Duration(n*float64(time.Second)), time.Millisecond), maxCallTimeout)
	}
	if n, ok := number(args["retries"]); ok {
		c.Retries = int(min(max(n, 0), maxCallRetries))
	}
	if headers, ok := args["headers"].(map[string]any); ok {
		c.Headers = map[string]string{}
		for name, v := range headers {
			c.Headers[name] = Text(v)
		}
	}
	s.Calls = append(s.Calls, c)
	return nil
}

// Make sends the request until it is answered with success, for as often as it may.
func (c *Call) Make(ctx context.Context, client *http.Client) error {
	pause := callPause
	for attempt := 0; ; attempt++ {
		err := c.once(ctx, client)
		if err == nil || attempt >= c.Retries || ctx.Err() != nil {
			return err
		}
		t := time.NewTimer(pause)
		pause *= 2
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
	}
}

func (c *Call) once(ctx context.Context, client *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return fmt.Errorf("call %s: %w", c.URL, err)
	}
	for name, v := range c.Headers {
		req.Header.Set(name, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("call %s: %w", c.URL, err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return fmt.Errorf("call %s: the answer is %s, a redirect, which is not followed: name the server that it leads to in the rule", c.URL, resp.Status)
	}
	if resp.StatusCode >= 400 {
		return fmt.Errorf("call %s: the answer is %s", c.URL, resp.Status)
	}
	return nil
}
