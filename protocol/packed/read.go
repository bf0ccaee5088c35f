package packed

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// ErrBroken means that bytes are no packed values.
var ErrBroken = errors.New("packed values are broken")

// Reader reads values one after the other. After one that is not as it should be, all others
// are empty: Err is asked at the end.
type Reader struct {
	rest []byte
	err  error
}

// Read reads what Append has written; what it returns refers to nothing of b.
func Read(b []byte) Reader { return Reader{rest: b} }

// More reports whether there is another value.
func (r *Reader) More() bool { return r.err == nil && len(r.rest) > 0 }

// Err says what went wrong, as ErrBroken.
func (r *Reader) Err() error { return r.err }

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s, %d bytes before the end", ErrBroken, what, len(r.rest))
	}
	r.rest = nil
}

// Byte reads a byte that stands for itself, 0 where there is none.
func (r *Reader) Byte() byte {
	if len(r.rest) == 0 {
		r.fail("they end too soon")
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

// take takes n bytes.
func (r *Reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail("they end too soon")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *Reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail("an invalid length")
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads how many values follow, of which each takes least bytes or more.
func (r *Reader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/least) {
		r.fail("more values than there is room for")
		return 0
	}
	return int(n)
}

// raw takes the bytes of a form.
func (r *Reader) raw(tag byte) []byte {
	switch tag {
	case tagMAC:
		return r.take(6)
	case tagUUID:
		return r.take(16)
	}
	return r.take(r.uvarint())
}

func (r *Reader) word(n uint64) string {
	if n >= uint64(len(words)) {
		r.fail("a word that this program does not know")
		return ""
	}
	return words[n]
}

// textOf reads the text that begins with tag; false: it does not begin a text.
func (r *Reader) textOf(tag byte) (string, bool) {
	switch {
	case tag >= firstWord:
		return r.word(uint64(tag - firstWord)), true
	case tag >= firstText:
		return string(r.take(uint64(tag - firstText))), true
	}
	switch tag {
	case tagText:
		return string(r.take(r.uvarint())), true
	case tagWord:
		return r.word(min(r.uvarint(), math.MaxInt32) + shortWords), true
	case tagMAC, tagUUID, tagHex, tagSealed:
		if raw := r.raw(tag); r.err == nil {
			return text(tag, raw), true
		}
		return "", true
	}
	return "", false
}

// Text reads a text.
func (r *Reader) Text() string {
	s, ok := r.textOf(r.Byte())
	if !ok {
		r.fail("not a text")
	}
	return s
}

func (r *Reader) intOf(tag byte) (int64, bool) {
	switch {
	case tag >= firstInt && tag < firstText:
		return int64(tag - firstInt), true
	case tag != tagInt:
		return 0, false
	}
	i, size := binary.Varint(r.rest)
	if size <= 0 {
		r.fail("an invalid number")
		return 0, true
	}
	r.rest = r.rest[size:]
	return i, true
}

// Int reads a whole number.
func (r *Reader) Int() int64 {
	i, ok := r.intOf(r.Byte())
	if !ok {
		r.fail("not a whole number")
	}
	return i
}

// Bool reads a truth.
func (r *Reader) Bool() bool {
	tag := r.Byte()
	if tag != tagTrue && tag != tagFalse {
		r.fail("not a truth")
	}
	return tag == tagTrue
}

// Count reads how many values a list has, which follow.
func (r *Reader) Count() int {
	if r.Byte() != tagList {
		r.fail("not a list")
		return 0
	}
	return r.count(1)
}

// Texts reads a list of texts.
func (r *Reader) Texts() []string {
	n := r.Count()
	list := make([]string, 0, min(n, atOnce))
	for i := 0; i < n && r.err == nil; i++ {
		list = append(list, r.Text())
	}
	return list
}

// TextsByName reads an object of texts.
func (r *Reader) TextsByName() map[string]string {
	if r.Byte() != tagObject {
		r.fail("not an object")
		return nil
	}
	n := r.count(2)
	m := make(map[string]string, min(n, atOnce))
	for i := 0; i < n && r.err == nil; i++ {
		name := r.Text()
		m[name] = r.Text()
	}
	return m
}

// Object reads an object.
func (r *Reader) Object() map[string]any {
	m, ok := r.Value().(map[string]any)
	if !ok {
		r.fail("not an object")
	}
	return m
}

// Value reads a value.
func (r *Reader) Value() any { return r.value(0) }

func (r *Reader) value(depth int) any {
	tag := r.Byte()
	if s, ok := r.textOf(tag); ok {
		return s
	}
	if i, ok := r.intOf(tag); ok {
		return float64(i)
	}
	switch tag {
	case tagNil:
		return nil
	case tagFalse, tagTrue:
		return tag == tagTrue
	case tagFloat:
		return r.float()
	case tagNumber:
		return number(string(r.take(r.uvarint())))
	case tagList, tagObject:
		if depth == maxDepth {
			r.fail("too deep")
			return nil
		}
		if tag == tagList {
			return r.list(depth + 1)
		}
		return r.object(depth + 1)
	}
	r.fail(fmt.Sprintf("a value of the unknown kind %d", tag))
	return nil
}

// atOnce is for how many values room is made before they have been seen.
const atOnce = 64

func (r *Reader) float() float64 {
	raw := r.take(8)
	if raw == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(raw))
}

// number is what a number is that did not become a float64 when it was written.
func number(text string) any {
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return json.Number(text)
}

func (r *Reader) list(depth int) []any {
	n := r.count(1)
	list := make([]any, 0, min(n, atOnce))
	for i := 0; i < n && r.err == nil; i++ {
		list = append(list, r.value(depth))
	}
	return list
}

func (r *Reader) object(depth int) map[string]any {
	n := r.count(2)
	m := make(map[string]any, min(n, atOnce))
	for i := 0; i < n && r.err == nil; i++ {
		name := r.Text()
		m[name] = r.value(depth)
	}
	return m
}

// Skip skips a value.
func (r *Reader) Skip() {
	for left := 1; left > 0 && r.err == nil; left-- {
		switch tag := r.Byte(); {
		case tag >= firstWord, tag >= firstInt && tag < firstText:
		case tag >= firstText:
			r.take(uint64(tag - firstText))
		default:
			left += r.skip(tag)
		}
	}
}

// skip skips what comes behind a tag and returns how many values belong to it.
func (r *Reader) skip(tag byte) int {
	switch tag {
	case tagNil, tagFalse, tagTrue:
	case tagInt, tagWord:
		r.uvarint()
	case tagFloat:
		r.take(8)
	case tagNumber, tagText, tagUUID, tagHex, tagSealed, tagMAC:
		r.raw(tag)
	case tagList:
		return r.count(1)
	case tagObject:
		return 2 * r.count(2)
	default:
		r.fail(fmt.Sprintf("a value of the unknown kind %d", tag))
	}
	return 0
}
