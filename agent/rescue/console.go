package rescue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/term"
)

// Consoles are the terminals on which the kernel shows its messages, each as a device's path.
func Consoles() []string {
	raw, err := os.ReadFile("/sys/class/tty/console/active")
	if err != nil {
		return nil
	}
	var list []string
	for name := range strings.FieldsSeq(string(raw)) {
		if name == "tty0" {
			name = "tty1" // tty0 is whichever terminal is shown
		}
		list = append(list, "/dev/"+name)
	}
	return list
}

// maxLine bounds what is typed as a name.
const maxLine = 256

// idleConsole is how long a console that cannot be read is left alone.
const idleConsole = 10 * time.Second

// ServeConsole asks for name and password on a terminal, again and again, and runs a shell for the user. After
// the end of ctx it ends when something is typed: a read of a terminal cannot be cut short.
func (s *Server) ServeConsole(ctx context.Context, path string) {
	for ctx.Err() == nil {
		err := s.login(ctx, path)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF): // a terminal that was hung up
			err = wait(ctx, time.Second)
		default:
			s.log.Debug("rescue: no login on a console", "console", path, "error", err)
			err = wait(ctx, idleConsole)
		}
		if err != nil {
			return
		}
	}
}

// login asks once.
func (s *Server) login(ctx context.Context, path string) error {
	tty, err := openTTY(path)
	if err != nil {
		return err
	}
	defer tty.Close()
	fd := int(tty.Fd())
	if !term.IsTerminal(fd) {
		return fmt.Errorf("%s is no terminal", path)
	}
	fmt.Fprintf(tty, "\r\n%s login: ", hostname())
	user, err := readLine(tty)
	if err != nil {
		return err
	}
	if user == "" {
		return nil
	}
	fmt.Fprint(tty, "Password: ")
	password, err := term.ReadPassword(fd)
	fmt.Fprint(tty, "\r\n")
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !s.allows(user, string(password)) {
		s.log.Warn("rescue: a login on the console was refused", "console", path)
		if err := wait(ctx, s.pause); err != nil {
			return err
		}
		fmt.Fprint(tty, "Login incorrect\r\n")
		return nil
	}
	cmd := s.command(ctx, "linux")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, 0
	s.log.Info("rescue: logged in on the console", "console", path)
	if err := cmd.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			return err
		}
	}
	return nil
}

// readLine reads one line; a longer one than any name is cut.
func readLine(tty io.Reader) (string, error) {
	line, err := bufio.NewReaderSize(io.LimitReader(tty, maxLine), maxLine).ReadString('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(line), nil
}
