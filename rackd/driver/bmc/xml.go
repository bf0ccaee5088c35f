package bmc

import "fmt"

// mostPieces bounds what an answer in XML is made of. Trees of such pieces take some hundred bytes for each. The largest answers
// that were recorded have 20,000.
const mostPieces = 150_000

// CheckXML refuses an answer that is to become a tree of elements and has too many of them, with their attributes and words: in
// maxAnswer there is room for a million elements, which take 300 MiB of memory.
func CheckXML(body []byte) error {
	pieces, blank := 0, false
	for _, b := range body {
		switch b {
		case ' ', '\t', '\n', '\r':
			if !blank {
				pieces++
			}
			blank = true
			continue
		case '<', '=':
			pieces++
		}
		blank = false
	}
	if pieces > mostPieces {
		return fmt.Errorf("its answer is XML of %d pieces, more than the %d that are read", pieces, mostPieces)
	}
	return nil
}
