package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// serialPoll is how often a waiting reader looks at the log.
const serialPoll = 50 * time.Millisecond

// maxSerialLine is how much of an unfinished line is kept.
const maxSerialLine = 64 << 10

// escapes are the terminal control sequences with which firmware paints.
var escapes = regexp.MustCompile("\x1b(\\[[0-9;?=]*[a-zA-Z]|[()][A-Z0-9]|[=>78cM])")

// SerialLog reads what a machine printed, from any process, while it is written.
// Not safe for concurrent use.
type SerialLog struct {
	path   string
	offset int64
}

// OpenSerial reads the serial log in a machine's folder from a byte offset; a
// negative one means from the log's present end. The log need not exist yet.
func OpenSerial(dir string, offset int64) *SerialLog {
	s := &SerialLog{path: filepath.Join(dir, serialLog), offset: offset}
	if offset < 0 {
		s.offset = 0
		if st, err := os.Stat(s.path); err == nil {
			s.offset = st.Size()
		}
	}
	return s
}

// Serial is the machine's serial log from a byte offset, as OpenSerial.
func (m *Machine) Serial(offset int64) *SerialLog { return OpenSerial(m.cfg.Dir, offset) }

// Path is the log file.
func (s *SerialLog) Path() string { return s.path }

// Offset is where the next line starts.
func (s *SerialLog) Offset() int64 { return s.offset }

// Line waits for the next whole line and returns it without its end and without
// terminal control sequences.
func (s *SerialLog) Line(ctx context.Context) (string, error) {
	poll := time.NewTicker(serialPoll)
	defer poll.Stop()
	for {
		line, n, err := s.next()
		if err != nil {
			return "", err
		}
		if n > 0 {
			s.offset += n
			return line, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-poll.C:
		}
	}
}

// Wait reads until a line matches and returns that line. Its error shows the last
// line that the machine printed.
func (s *SerialLog) Wait(ctx context.Context, pattern *regexp.Regexp) (string, error) {
	last := ""
	for {
		line, err := s.Line(ctx)
		if err != nil {
			return "", fmt.Errorf("waiting for %q in %s, last line %q: %w", pattern, s.path, last, err)
		}
		if pattern.MatchString(line) {
			return line, nil
		}
		if line != "" {
			last = line
		}
	}
}

// next returns one line and the bytes it takes in the log, 0 if none is whole.
func (s *SerialLog) next() (string, int64, error) {
	f, err := os.Open(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	buf := make([]byte, maxSerialLine)
	n, err := f.ReadAt(buf, s.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, err
	}
	end := bytes.IndexByte(buf[:n], '\n')
	if end < 0 {
		if n < len(buf) {
			return "", 0, nil
		}
		end = n - 1 // a screen painted without newlines: take it in pieces
	}
	line := escapes.ReplaceAll(buf[:end], nil)
	line = bytes.Trim(line, "\r\x00")
	if i := bytes.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	return string(line), int64(end + 1), nil
}
