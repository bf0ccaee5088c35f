package inventory

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// CPU describes the processors by /proc/cpuinfo.
func (m Machine) CPU() agentapi.CPU {
	c := agentapi.CPU{Architecture: map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], Flags: []string{}}
	sockets := map[string]bool{}
	for line := range strings.Lines(m.text("/proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			c.Count++
		case "physical id":
			sockets[value] = true
		case "model name":
			c.ModelName = value
		case "cpu MHz":
			c.Frequency = value
		case "flags", "Features":
			c.Flags = strings.Fields(value)
		}
	}
	c.SocketCount = max(1, len(sockets))
	// The nominal frequency says more than the momentary one.
	if khz := m.number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"); khz > 0 {
		c.Frequency = strconv.FormatInt(khz/1000, 10)
	}
	return c
}

// Memory is what the kernel has and what the modules in the slots add up to.
func (m Machine) Memory() agentapi.Memory {
	total := m.meminfo("MemTotal")
	mem := agentapi.Memory{Total: total, PhysicalMB: total >> 20}
	// The kernel keeps some for itself: count memory blocks where it tells them.
	if size, err := strconv.ParseInt(m.text("/sys/devices/system/memory/block_size_bytes"), 16, 64); err == nil && size > 0 {
		var online int64
		for _, name := range m.names("/sys/devices/system/memory") {
			if strings.HasPrefix(name, "memory") && m.text("/sys/devices/system/memory", name, "online") == "1" {
				online++
			}
		}
		if online > 0 {
			mem.PhysicalMB = online * size >> 20
		}
	}
	return mem
}

// FreeMemory is how many bytes programs could still have.
func (m Machine) FreeMemory() int64 { return m.meminfo("MemAvailable") }

// meminfo reads one line of /proc/meminfo, in bytes.
func (m Machine) meminfo(key string) int64 {
	for line := range strings.Lines(m.text("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key+":" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
