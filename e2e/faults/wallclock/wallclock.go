// Package wallclock steps the wall clock of one running program, as a bad time server
// or a hand would, and leaves its monotonic clock and everybody else's clocks alone.
//
// It may import nothing of the project. Programs read the time through the kernel's
// vDSO, which no namespace and no environment variable reaches; so the vDSO's function
// is overwritten, in that one program's memory, by one that asks the kernel and adds to
// the wall clock. The program needs to know nothing of this. It works on Linux on amd64,
// as root, with programs that have the vDSO's clock_gettime from there, as Go's do.
package wallclock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrUnsupported is returned where wall clocks cannot be stepped.
var ErrUnsupported = errors.New("the wall clock of a program can be stepped on linux/amd64 only")

// Supported reports whether Step can work here.
func Supported() bool {
	return runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && os.Geteuid() == 0
}

// Step makes the wall clock of the process wrong by a number of whole seconds, there
// and then; 0 puts it right.
func Step(pid int, by time.Duration) error {
	if !Supported() {
		return ErrUnsupported
	}
	seconds := int64(by / time.Second)
	if int64(int32(seconds)) != seconds {
		return fmt.Errorf("step of %v is too long", by)
	}
	lib, err := findVDSO(pid)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	entry, room, err := lib.functions()
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	// The code stays once it is there, and only its number changes: a thread may be
	// anywhere in it, under a signal's handler, where nobody sees it.
	there := make([]byte, jumpBytes)
	if err := lib.read(there, entry); err != nil {
		return err
	}
	jump := jumpTo(entry, room)
	if bytes.Equal(there, jump) {
		return lib.overwrite(map[int64][]byte{room + secondsAt: number(seconds)})
	}
	return lib.overwrite(map[int64][]byte{room: shifted(seconds), entry: jump})
}

// secondsAt is where shifted's code holds the seconds.
const secondsAt = 14

// shifted is the machine code of a clock_gettime that adds seconds to CLOCK_REALTIME.
func shifted(seconds int64) []byte {
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: is it CLOCK_REALTIME?
		0x75, 0x07, // jnz over the next
		0x48, 0x81, 0x06, 0, 0, 0, 0, // add qword [rsi], seconds
		0xc3, // ret
	}
	copy(code[secondsAt:], number(seconds))
	return code
}

const jumpBytes = 5

func jumpTo(from, to int64) []byte {
	return append([]byte{0xe9}, number(to-from-jumpBytes)...) // jmp, relative
}

func number(n int64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(int32(n))) }

// vdso is the vDSO as it is mapped into a process.
type vdso struct {
	pid       int
	from, end int64
}

func findVDSO(pid int) (*vdso, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		place, _, _ := strings.Cut(line, " ")
		from, end, _ := strings.Cut(place, "-")
		a, err1 := strconv.ParseInt(from, 16, 64)
		b, err2 := strconv.ParseInt(end, 16, 64)
		return &vdso{pid, a, b}, errors.Join(err1, err2)
	}
	return nil, errors.New("it has no vDSO")
}

// functions returns the addresses of clock_gettime and of a function that Go programs
// do not call, which gives its room.
func (v *vdso) functions() (entry, room int64, err error) {
	image := make([]byte, v.end-v.from)
	if err := v.read(image, v.from); err != nil {
		return 0, 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, fmt.Errorf("vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, 0, fmt.Errorf("vDSO: %w", err)
	}
	for _, s := range symbols {
		switch {
		case s.Name == "__vdso_clock_gettime":
			entry = v.from + int64(s.Value)
		case s.Name == "__vdso_getcpu" && s.Size >= uint64(len(shifted(0))):
			room = v.from + int64(s.Value)
		}
	}
	if entry == 0 || room == 0 {
		return 0, 0, errors.New("vDSO lacks clock_gettime, or a getcpu that is long enough")
	}
	return entry, room, nil
}

func (v *vdso) read(into []byte, address int64) error {
	return memory(v.pid, os.O_RDONLY, func(f *os.File) error { _, err := f.ReadAt(into, address); return err })
}

// tries bounds the search for a moment in which no thread is inside the vDSO.
const tries = 200

// overwrite writes what is given for each address while no thread executes the vDSO.
func (v *vdso) overwrite(code map[int64][]byte) error {
	for range tries {
		done, err := v.whileStopped(func() error {
			return memory(v.pid, os.O_WRONLY, func(f *os.File) error {
				for address, text := range code {
					if _, err := f.WriteAt(text, address); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d is always reading its clock", v.pid)
}

// whileStopped stops the process, does f unless a thread is inside the vDSO, and lets
// the process go on.
func (v *vdso) whileStopped(f func() error) (done bool, err error) {
	if err := syscall.Kill(v.pid, syscall.SIGSTOP); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, syscall.Kill(v.pid, syscall.SIGCONT)) }()
	outside, err := v.outside()
	if err != nil || !outside {
		return false, err
	}
	return true, f()
}

// outside waits until all threads are stopped and reports whether none is in the vDSO.
func (v *vdso) outside() (bool, error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		counters, err := counters(v.pid)
		if err != nil {
			return false, err
		}
		if counters != nil {
			for _, pc := range counters {
				if pc >= v.from && pc < v.end {
					return false, nil
				}
			}
			return true, nil
		}
		if time.Now().After(end) {
			return false, fmt.Errorf("process %d does not stop", v.pid)
		}
	}
}

// counters are the program counters of a stopped process's threads, nil while one runs.
func counters(pid int) ([]int64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("process %d has ended", pid))
	}
	var list []int64
	for _, file := range files {
		stat, err1 := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		text, err2 := os.ReadFile(file)
		if errors.Is(err1, os.ErrNotExist) || errors.Is(err2, syscall.ESRCH) || errors.Is(err2, os.ErrNotExist) {
			continue // a thread that has just ended
		}
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		// After the name in brackets comes the state; T is stopped.
		_, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
		words := strings.Fields(string(text))
		if !strings.HasPrefix(state, "T") || len(words) < 3 {
			return nil, nil
		}
		pc, err := strconv.ParseInt(strings.TrimPrefix(words[len(words)-1], "0x"), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, pc)
	}
	return list, nil
}

func memory(pid, mode int, do func(*os.File) error) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), mode, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := do(f); err != nil {
		return fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return nil
}
