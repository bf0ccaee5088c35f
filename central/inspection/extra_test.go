package inspection

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestExtraHardware holds what becomes of the facts of hardware-detect, and of what is none; the
// answers are those of an Ironic 39.
func TestExtraHardware(t *testing.T) {
	const old = `"extra":{"old":1}`
	nines := strings.Repeat("9", 4301)
	for _, c := range []struct{ sent, want, strict string }{ // strict: when it is another
		{`{` + old + `}`, `{` + old + `}`, ""},
		{`{"data":[["cpu","logical","number","8"],["cpu","physical_0","product","Xeon"],["disk","logical","count",1]],` + old + `}`,
			`{"extra":{"cpu":{"logical":{"number":8},"physical_0":{"product":"Xeon"}},"disk":{"logical":{"count":1}}}}`, ""},
		{`{"data":[],` + old + `}`, `{"extra":{}}`, ""},
		{`{"data":null,` + old + `}`, `{"data":null,` + old + `}`, `{` + old + `}`},
		{`{"data":"abc"}`, `{"data":"abc"}`, `{}`},
		{`{"data":{"a":1}}`, `{"data":{"a":1}}`, `{}`},
		{`{"data":[["a","b","c","d"],5]}`, `{"data":[["a","b","c","d"],5]}`, `{}`},
		{`{"data":[["a","b","c","d"],null]}`, `{"data":[["a","b","c","d"],null]}`, `{}`},
		{`{"data":[[],["a","b","c","d"]]}`, `{"extra":{"a":{"b":{"c":"d"}}}}`, `{}`},
		{`{"data":[["a"],["a","b","c","1"],["q","r"],["u","v","w"],["a","x","y","z"]]}`, `{"extra":{"a":{"b":{"c":1},"x":{"y":"z"}},"q":{"r":{}},"u":{"v":{}}}}`, `{}`},
		{`{"data":[["a","b","c","1","e"]]}`, `{"extra":{"a":{"b":{"c":1}}}}`, `{}`},
		{`{"data":[["a","b","c","1"],["a","b","c","2"]]}`, `{"extra":{"a":{"b":{"c":2}}}}`, ""},
		{`{"data":[[1,null,1.5,"x"],[[],"b","c","d"],["k",{},"c","d"],["k","l",[],"d"],["","","",""]]}`, `{"extra":{"1":{"null":{"1.5":"x"}},"k":{"l":{}},"":{"":{"":""}}}}`, ""},
		{`{"data":[["v","n","1","3.7"],["v","n","2",3.7],["v","n","3",-3.7],["v","n","4",true],["v","n","5",false],["v","n","6",null],["v","n","7","-5"],["v","n","8","+5"],["v","n","9","1_000"]]}`,
			`{"extra":{"v":{"n":{"1":"3.7","2":3,"3":-3,"4":1,"5":0,"6":null,"7":-5,"8":5,"9":1000}}}}`, ""},
		{`{"data":[["v","n","1","1__0"],["v","n","2","_1"],["v","n","3","0x10"],["v","n","4","007"],["v","n","5","-0"],["v","n","6",""],["v","n","7"," "],["v","n","8"," 7\n"],["v","n","9","- 7"]]}`,
			`{"extra":{"v":{"n":{"1":"1__0","2":"_1","3":"0x10","4":7,"5":0,"6":"","7":" ","8":7,"9":"- 7"}}}}`, ""},
		{`{"data":[["v","n","1","12345678901234567890"],["v","n","2",12345678901234567890],["v","n","3",1e22],["v","n","4","1e3"],["v","n","5",[1]],["v","n","6","` + nines + `"],["v","n","7",1e400]]}`,
			`{"extra":{"v":{"n":{"1":12345678901234567890,"2":12345678901234567890,"3":10000000000000000000000,"4":"1e3","5":[1],"6":"` + nines + `","7":1e400}}}}`, ""},
	} {
		for _, strict := range []bool{false, true} {
			want := c.want
			if strict && c.strict != "" {
				want = c.strict
			}
			s := newSubject(t)
			s.Plugin = decode[map[string]any](t, c.sent)
			if err := processor(t, Settings{Hooks: []string{"extra-hardware"}, ExtraHardwareStrict: strict}).Run(s, nil); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(s.Plugin)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(decode[any](t, string(got)), decode[any](t, want)) {
				t.Errorf("%.300s, strict %v: %.300s, want %.300s", c.sent, strict, got, want)
			}
		}
	}
}

// TestRulesSeeExtraHardware holds that rules find the facts by their names, and what they say.
func TestRulesSeeExtraHardware(t *testing.T) {
	s := newSubject(t)
	s.Plugin = decode[map[string]any](t, `{"data":[["cpu","logical","number","12"]]}`)
	rule, err := Parse(decode[[]any](t, `[{"op":"eq","args":[["{plugin_data[extra][cpu][logical][number]}","12"]]}]`), decode[[]any](t, `[{"op":"set-attribute","args":["extra/cpus","{plugin_data[extra][cpu][logical][number]}"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if err := processor(t, Settings{Hooks: []string{"extra-hardware"}}).Run(s, []Rule{rule}); err != nil || s.Node.Extra["cpus"] != "12" {
		t.Errorf("extra %v, error %v", s.Node.Extra, err)
	}
}
