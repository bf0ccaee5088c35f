package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/ops/busview"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

type busCommand struct {
	Show busShow `cmd:"" help:"Print a document of the bus, or list those of a place. It changes nothing, and secrets stay sealed."`
}

type busShow struct {
	Place string `arg:"" help:"NODES (what racks are told of nodes), WORK (what they do), ALIVE (rackds), GROUPS (conductor groups), EVENTS (what waits for central), CONFIGDRIVES or CONSOLES (copies of consoles' logs)."`
	Key   string `arg:"" optional:"" help:"Key of a document, a node's UUID, or an event's number. Default: list all."`

	Bus       string `help:"URL of the site's NATS server, or of the hub's." required:"" env:"CENTRAL_BUS" placeholder:"nats://HOST:4222"`
	Site      string `help:"Site, if the server is the hub's."`
	Creds     string `help:"NATS credentials file." type:"existingfile" placeholder:"FILE" env:"CENTRAL_BUS_CREDS"`
	TokenFile string `help:"File with a NATS token." type:"existingfile" placeholder:"FILE" env:"CENTRAL_BUS_TOKEN_FILE"`
	JSON      bool   `help:"Print the list as JSON." name:"json"`
}

// showWithin bounds the whole command: a bus that is away is told of, not waited for.
const showWithin = time.Minute

func (c busShow) Run(ctx context.Context, log *slog.Logger) error {
	opts := []nats.Option{nats.Name("ironyard bus show"), nats.Timeout(5 * time.Second)}
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.TokenFile != "" {
		token, err := secretfile.Read(c.TokenFile, log)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		opts = append(opts, nats.Token(strings.TrimSpace(string(token))))
	}
	nc, err := nats.Connect(c.Bus, opts...)
	if err != nil {
		return fmt.Errorf("connect to the bus: %w", err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, showWithin)
	defer cancel()
	place, err := busview.Open(nc, c.Site, c.Place)
	if err != nil {
		return err
	}
	if c.Key == "" {
		return c.list(ctx, place)
	}
	document, err := place.Show(ctx, c.Key)
	if err != nil {
		return err
	}
	return printDocument(os.Stdout, document)
}

func printDocument(w io.Writer, document []byte) error {
	var text bytes.Buffer
	if err := json.Indent(&text, document, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, visible(text.String()))
	return err
}

// visible writes what no terminal shows as the escapes of JSON: who may write on the bus must not command an operator's terminal.
func visible(document string) string {
	var b strings.Builder
	for _, r := range document {
		switch {
		case r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError:
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// name is a name of the bus on one line; one that is not plain stands in quotes.
func name(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == utf8.RuneError }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

func (c busShow) list(ctx context.Context, place *busview.Place) error {
	entries, err := place.List(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(os.Stdout, append([]busview.Entry{}, entries...))
	}
	return printEntries(os.Stdout, entries)
}

func printEntries(out io.Writer, entries []busview.Entry) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "KEY\tREVISION\tBYTES\tWRITTEN\tSUBJECT")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", name(e.Key), e.Revision, e.Size, e.Written.UTC().Format(time.RFC3339), name(e.About))
	}
	return w.Flush()
}
