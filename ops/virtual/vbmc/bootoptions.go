package vbmc

import (
	"net/http"
)

const optionsPath = systemPath + "/BootOptions"

// withOptions answers by h with the firmware's boot options.
func withOptions(h func(options []BootOption, w http.ResponseWriter, r *http.Request)) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		o, ok := b.bootOrderer()
		if !ok {
			notFound(w, r)
			return
		}
		options, _, err := o.BootOptions()
		if err != nil {
			b.failed(w, "reading the boot options", err)
			return
		}
		h(options, w, r)
	}
}

func listOptions(options []BootOption, w http.ResponseWriter, _ *http.Request) {
	var members []string
	for _, o := range options {
		members = append(members, optionsPath+"/"+o.Name)
	}
	write(w, http.StatusOK, collection(optionsPath, "BootOptionCollection", "Boot Options", members...))
}

func showOption(options []BootOption, w http.ResponseWriter, r *http.Request) {
	for _, o := range options {
		if o.Name == r.PathValue("name") {
			write(w, http.StatusOK, resource(optionsPath+"/"+o.Name, "BootOption.v1_0_3.BootOption", o.Name, o.Name, object{
				"BootOptionReference": o.Name, "DisplayName": o.Description, "UefiDevicePath": o.Path, "BootOptionEnabled": o.Active}))
			return
		}
	}
	notFound(w, r)
}

// order is the boot order of the next start, by names.
func order(o BootOrderer) ([]string, error) {
	options, ordered, err := o.BootOptions()
	names := []string{}
	for _, option := range options[:ordered] {
		names = append(names, option.Name)
	}
	return names, err
}
