package api

import (
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// ramdiskTimeout is how long, in seconds, an agent may be silent, where no rackd says.
const ramdiskTimeout = 300

// appendLookup adds to the object that b holds the answer to a lookup, and ends it: who
// the node is and how its agent is to behave, in the shape that ironic-python-agent reads.
// Anybody may ask for it, so that what not every caller sees of a node is kept back, unless everybody administers anyway:
// and of the rest an agent gets what it reads, without credentials in addresses.
func (s *Server) appendLookup(b []byte, r *Request, n *store.Node, c agentapi.LookupConfig) []byte {
	internal, _ := withheld("driver_internal_info").(map[string]any)
	if auth.Open(s.Auth) {
		internal = shownToStrangers(n.DriverInternalInfo)
	}
	b = wire.AppendValue(append(b, `"node":{"uuid":`...), n.UUID)
	for _, f := range []struct {
		name  string
		value map[string]any
	}{{"properties", shownToStrangers(n.Properties)}, {"instance_info", shownInstance(n.InstanceInfo)}, {"driver_internal_info", internal}} {
		if f.value == nil {
			f.value = map[string]any{}
		}
		b = wire.AppendValue(wire.AppendName(b, f.name), f.value)
	}
	b = wire.AppendLinks(wire.AppendName(b, "links"), r.Base, "nodes/"+n.UUID)
	b = append(b, `},"config":`...)
	return append(wire.AppendValue(b, agentConfig(c)), '}')
}

// agentConfig are Ironic's defaults, where no rackd says otherwise.
func agentConfig(c agentapi.LookupConfig) map[string]any {
	return map[string]any{
		"heartbeat_timeout":    c.HeartbeatTimeout,
		"agent_token":          orNull(c.AgentToken),
		"agent_token_required": true,
		"metrics": map[string]any{"backend": "noop", "prepend_host": false, "prepend_uuid": false, "prepend_host_reverse": true,
			"global_prefix": nil},
		"metrics_statsd": map[string]any{"statsd_host": "localhost", "statsd_port": 8125},
		"agent_containers": map[string]any{"allow_arbitrary_containers": false, "allowed_containers": []string{},
			"container_steps_file": "/etc/ironic-python-agent.d/mysteps.yaml", "runner": "podman", "pull_options": []string{},
			"run_options": []string{"--rm", "--network=host"}},
		"agent_md5_checksum_enable":      false,
		"disable_deep_image_inspection":  false,
		"permitted_image_formats":        []string{"raw", "gpt", "qcow2", "iso"},
		"agent_skip_bmc_detect":          c.SkipBMCDetect,
		"enable_bios_bootloader_install": false,
		"tls_min_version":                "1.2",
		"tls_cipher_suites":              nil,
	}
}
