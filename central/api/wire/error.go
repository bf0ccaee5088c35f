package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Shape says how an error's body looks: Ironic has three.
type Shape int

// The shapes.
const (
	// Service: {"error_message": "<JSON text of faultcode, faultstring, debuginfo>"}.
	Service Shape = iota
	// Framework: {"error_message": "<JSON text of code, title, description>"}, for
	// routes, methods and versions that do not exist; code is a number.
	Framework
	// Bare: {"faultcode", "faultstring"}, for bodies that are too large or too deep.
	Bare
)

// Error is an answer that says no.
type Error struct {
	Status int
	Text   string // where Ironic refuses the same, in its words
	// Detail is what Ironic would not have said: which field, which version is needed. The
	// service's shape has it as debuginfo.
	Detail string
	Shape  Shape
}

// Error is the text with its detail, for logs.
func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Text
	}
	return e.Text + " (" + e.Detail + ")"
}

// Detailed sets Detail and returns e.
func (e *Error) Detailed(format string, args ...any) *Error {
	e.Detail = fmt.Sprintf(format, args...)
	return e
}

// HTTPStatus is the status of the answer.
func (e *Error) HTTPStatus() int { return e.Status }

// Errorf makes an error of the service's shape.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Text: fmt.Sprintf(format, args...)}
}

// Invalid is a 400.
func Invalid(format string, args ...any) *Error {
	return Errorf(http.StatusBadRequest, format, args...)
}

// NotAcceptable is the 406 for something that is newer than the request's version.
func NotAcceptable(what string, since microversion.Version) *Error {
	return Errorf(http.StatusNotAcceptable, "Request not acceptable.").Detailed("%s needs API version %s or newer", what, since)
}

// Needs is NotAcceptable where Ironic says which version is needed.
func Needs(since microversion.Version, what string) *Error {
	return Errorf(http.StatusNotAcceptable, "Request not acceptable. The minimal required API version should be %s", since).Detailed("for %s", what)
}

// FrameworkError makes an error of the framework's shape, which has no words but the status's
// where the text is empty.
func FrameworkError(status int, text string) *Error {
	return &Error{Status: status, Text: text, Shape: Framework}
}

// AsError turns any error into an answer: an *Error, or whatever says its own
// status and perhaps its text and detail apart, or else a 500 whose cause stays in the log. A text may repeat what a request has, or what a
// rack has said: passwords in addresses are masked in it.
func AsError(err error) *Error {
	e := asError(err)
	text, detail := seal.MaskAddresses("", e.Text, "******"), seal.MaskAddresses("", e.Detail, "******")
	if text == e.Text && detail == e.Detail {
		return e
	}
	masked := *e
	masked.Text, masked.Detail = text, detail
	return &masked
}

func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*microversion.NotAcceptableError](err); ok {
		return FrameworkError(http.StatusNotAcceptable, e.Reason)
	}
	var own interface {
		error
		HTTPStatus() int
	}
	if errors.As(err, &own) {
		e := &Error{Status: own.HTTPStatus(), Text: own.Error()}
		if split, ok := own.(interface{ Answer() (text, detail string) }); ok {
			e.Text, e.Detail = split.Answer()
		}
		return e
	}
	return &Error{Status: http.StatusInternalServerError,
		Text: "The server could not complete the request; its log says why, under the request id of this answer."}
}

// Body is the answer's body.
func (e *Error) Body() []byte {
	code := "Client"
	if e.Status >= 500 {
		code = "Server"
	}
	var inner any
	switch e.Shape {
	case Framework:
		inner = struct {
			Code  int    `json:"code"`
			Title string `json:"title"`
			Text  string `json:"description"`
		}{e.Status, http.StatusText(e.Status), e.Text}
	case Bare:
		return encode(struct {
			Code string `json:"faultcode"`
			Text string `json:"faultstring"`
		}{code, e.Text})
	default:
		inner = struct {
			Code  string  `json:"faultcode"`
			Text  string  `json:"faultstring"`
			Debug *string `json:"debuginfo"`
		}{Code: code, Text: e.Text, Debug: e.debug()}
	}
	return encode(struct {
		Message string `json:"error_message"`
	}{string(encode(inner))})
}

// debug is null where there is nothing to add, as in Ironic.
func (e *Error) debug() *string {
	if e.Detail == "" {
		return nil
	}
	return &e.Detail
}

// encode marshals a value that cannot fail to.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("wire: " + err.Error())
	}
	return b
}
