package ipmi

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// atOnce is how many tests run side by side. Most of them wait for answers that do not come, and take no processor.
const atOnce = 16

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
