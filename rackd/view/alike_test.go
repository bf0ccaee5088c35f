package view

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	"github.com/ironyard/ironyard/protocol/node"
)

func decode(t *testing.T, text string) *node.Document {
	t.Helper()
	var n node.Document
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	return &n
}

// What is shared is equal to what was read, whatever came before.
func TestSharingChangesNoDocument(t *testing.T) {
	a := newAlike()
	for i := range 20_000 {
		text := fmt.Sprintf(`{"uuid":"n%d","group":"g%d","driver":"redfish","interfaces":{"boot":"ipxe","power":"p%d"},"traits":["T%d",""],
			"driver_info":{"redfish_address":"https://bmc-%d","verify":false,"port":%d,"none":null,"":"x"},
			"properties":{"cpus":%d,"root":{"wwn":"0x%d","list":[1,"a",{"b":%d},[null,true]]}},"instance_info":{}}`, i, i%3, i%200, i%5, i, i%7, i, i, i)
		want, got := decode(t, text), decode(t, text)
		a.share(got)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("document %d:\ngot  %+v\nwant %+v", i, got, want)
		}
	}
	empty := &node.Document{}
	if a.share(empty); !reflect.DeepEqual(empty, &node.Document{}) {
		t.Errorf("an empty document became %+v", empty)
	}
}

func TestAlikeIsShared(t *testing.T) {
	a := newAlike()
	text := `{"interfaces":{"boot":"ipxe"},"driver_info":{"deploy_kernel":"file:///kernel"},"properties":{"root":{"vendor":"maker"}}}`
	one, two := decode(t, text), decode(t, text)
	a.share(one)
	a.share(two)
	same := func(what string, x, y any) {
		t.Helper()
		if unsafe.StringData(x.(string)) != unsafe.StringData(y.(string)) {
			t.Errorf("%s is there twice", what)
		}
	}
	same("a value", one.DriverInfo["deploy_kernel"], two.DriverInfo["deploy_kernel"])
	same("a value within", one.Properties["root"].(map[string]any)["vendor"], two.Properties["root"].(map[string]any)["vendor"])
	var keys []string
	for _, m := range []map[string]any{one.DriverInfo, two.DriverInfo} {
		for k := range m {
			keys = append(keys, k)
		}
	}
	same("a name", keys[0], keys[1])
	if reflect.ValueOf(one.Interfaces).Pointer() != reflect.ValueOf(two.Interfaces).Pointer() {
		t.Error("the interfaces are there twice")
	}
}
