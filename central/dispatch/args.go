package dispatch

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ironyard/ironyard/central/store"
)

// maxArgs bounds the arguments of a work, in bytes of JSON. A message of the bus holds 1 MiB, and
// what a rack reports of a work that goes on may say its steps three times: those that were asked
// for, those to come, and where it stands.
const maxArgs = 256 << 10

// checkArgs refuses a work whose arguments no rack could be sent, or could answer: the node would
// stay for ever in the state that the request puts it into.
func checkArgs(w *store.Work) error {
	text, err := json.Marshal(w.Args)
	if err != nil {
		return fmt.Errorf("the arguments of %s for node %s: %w", w.Verb, w.Node, err)
	}
	if len(text) > maxArgs {
		return refuse(http.StatusBadRequest, "The steps and other arguments of this request take %d bytes, more than the %d that a rack can be sent. "+
			"Name large data by a URL instead.", len(text), maxArgs)
	}
	return nil
}
