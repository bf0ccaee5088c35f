package commands

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// collectSystemLogs returns a gzipped tar archive in base64, as
// ironic-python-agent does: our log, the kernel's, and what explains them.
func collectSystemLogs(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdCollectLogs, Run: func(context.Context, command.Call) (any, error) {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		archive := tar.NewWriter(z)
		add := func(name string, data []byte) error {
			if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: time.Now()}); err != nil {
				return err
			}
			_, err := archive.Write(data)
			return err
		}
		files := map[string][]byte{"agent.log": d.Logs(), "kernel.log": kernelLog()}
		// The kernel command line stays out: other ramdisk tools put secrets there.
		for name, path := range map[string]string{"partitions": "/proc/partitions", "modules": "/proc/modules", "mounts": "/proc/self/mounts", "meminfo": "/proc/meminfo", "interrupts": "/proc/interrupts"} {
			if data, err := os.ReadFile(path); err == nil {
				files[name] = data
			}
		}
		for name, data := range files {
			if err := add(name, data); err != nil {
				return nil, fmt.Errorf("packing %s: %w", name, err)
			}
		}
		if err := archive.Close(); err != nil {
			return nil, fmt.Errorf("packing logs: %w", err)
		}
		if err := z.Close(); err != nil {
			return nil, fmt.Errorf("packing logs: %w", err)
		}
		return map[string]string{"system_logs": base64.StdEncoding.EncodeToString(out.Bytes())}, nil
	}}
}

// kernelLog is the kernel's ring buffer; empty without the right to read it.
func kernelLog() []byte {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL
	buf := make([]byte, 1<<20)
	n, err := unix.Klogctl(readAll, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}
