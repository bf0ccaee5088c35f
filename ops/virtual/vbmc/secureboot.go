package vbmc

import (
	"net/http"
)

const secureBootPath = systemPath + "/SecureBoot"

var keyResets = []string{string(DefaultKeys), string(NoKeys), string(NoPlatformKey)}

// withSecureBoot answers by h, if there is secure boot and its state can be read.
func withSecureBoot(h func(b *BMC, s SecureBooter, w http.ResponseWriter, r *http.Request)) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		s, ok := b.secureBooter()
		if !ok {
			notFound(w, r)
			return
		}
		h(b, s, w, r)
	}
}

func (b *BMC) showSecureBoot(s SecureBooter, w http.ResponseWriter, _ *http.Request) {
	state, err := s.SecureBoot()
	if err != nil {
		b.failed(w, "reading secure boot", err)
		return
	}
	write(w, http.StatusOK, b.secureBoot(state))
}

// secureBoot is the resource. SecureBootEnable is what will be; SecureBootCurrentBoot
// what is (DSP2046, SecureBoot).
func (b *BMC) secureBoot(state SecureBoot) object {
	current, mode := "Disabled", "SetupMode"
	if state.Now && b.computer.On() {
		current = "Enabled"
	}
	if state.PlatformKey {
		mode = "UserMode"
	}
	o := object{
		"SecureBootEnable": state.Next, "SecureBootCurrentBoot": current, "SecureBootMode": mode,
		"Actions": object{"#SecureBoot.ResetKeys": object{
			"target":                                secureBootPath + "/Actions/SecureBoot.ResetKeys",
			"ResetKeysType@Redfish.AllowableValues": keyResets,
		}},
	}
	if _, ok := b.computer.(KeyHolder); ok {
		o["SecureBootDatabases"] = link(databasesPath)
	}
	if state.Problem != "" {
		o["SecureBootEnable@Message.ExtendedInfo"] = []object{message("Warning", "OperationFailed", state.Problem)}
	}
	return resource(secureBootPath, "SecureBoot.v1_1_0.SecureBoot", "SecureBoot", "UEFI Secure Boot", o)
}

func (b *BMC) patchSecureBoot(s SecureBooter, w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state, err := s.SecureBoot()
	if err != nil {
		b.failed(w, "reading secure boot", err)
		return
	}
	shown := b.secureBoot(state)
	body, ok := decodePatch(w, r, shown)
	if !ok {
		return
	}
	on := state.Next
	if e := body.into("", shown, map[string]any{"SecureBootEnable": &on}); e != nil {
		e.write(w)
		return
	}
	if on != state.Next {
		if err := s.SetSecureBoot(on); err != nil {
			b.refused(w, "PropertyValueError", "setting SecureBootEnable", err)
			return
		}
	}
	b.showSecureBoot(s, w, r)
}

func (b *BMC) resetKeys(s SecureBooter, w http.ResponseWriter, r *http.Request) {
	body, ok := decodeAction(w, r)
	if !ok {
		return
	}
	var kind string
	if e := body.parameters("SecureBoot.ResetKeys", map[string]any{"ResetKeysType": &kind}, "ResetKeysType"); e != nil {
		e.write(w)
		return
	}
	if e := inList("the parameter ResetKeysType of the action SecureBoot.ResetKeys", "ActionParameterValueNotInList", kind, keyResets); e != nil {
		e.write(w)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.ResetKeys(KeyReset(kind)); err != nil {
		b.refused(w, "ActionParameterValueError", kind, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
