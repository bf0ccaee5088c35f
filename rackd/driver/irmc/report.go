package irmc

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// reportAt is where an iRMC tells of its machine, in XML.
const reportAt = "/report.xml"

// report is what is taken of an iRMC's report. Zero: it tells none.
type report struct {
	// model and firmware are the iRMC's own.
	model, firmware string
	memoryMB, cores int64
	// driveMB are the sizes of the physical drives.
	driveMB []int64
	// strange are the numbers that are none.
	strange []string
}

// report reads the node's report.
func (s *SCCI) report(ctx context.Context, n *node.Document, doing string) (found report, err error) {
	err = s.with(ctx, n, doing, func(l *link, as login) error {
		answer, err := l.talk(ctx, nil, as, http.MethodGet, reportAt, "", nil)
		if err != nil {
			return err
		}
		if answer.Status != http.StatusOK && answer.Status != http.StatusCreated {
			return bmc.StatusFailure(answer.Status, false, reportAt+": "+http.StatusText(answer.Status), nil)
		}
		found, err = parseReport(string(answer.Body))
		return err
	})
	return found, err
}

// What a report may be made of: that of an iRMC S4 has ten levels, and the largest machines have some hundred drives.
const (
	mostLevels = 100
	mostDrives = 1000
)

// parseReport reads a report piece by piece: it may be long, and little of it is wanted.
func parseReport(text string) (r report, err error) {
	d := xml.NewDecoder(strings.NewReader(text))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // they say UTF-8 in several ways
	var path []string
	var said strings.Builder
	root := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && len(path) == 0 && root == "Root" { // another is that of a page to log in at
			return r, nil
		}
		if err != nil {
			return report{}, &bmc.Failure{Said: fmt.Sprintf("%s with what is no whole report: %v", reportAt, err)}
		}
		switch token := token.(type) {
		case xml.StartElement:
			if path = append(path, token.Name.Local); len(path) > mostLevels {
				return report{}, &bmc.Failure{Said: fmt.Sprintf("%s with elements in more than %d others", reportAt, mostLevels)}
			}
			if strings.Join(path, "/") == itselfAt {
				for _, a := range token.Attr {
					if a.Name.Local == "Name" {
						r.model = a.Value
					}
				}
			}
			said.Reset()
		case xml.CharData:
			if said.Len()+len(token) <= 100 { // a number is short
				said.Write(token)
			}
		case xml.EndElement:
			r.take(path, strings.TrimSpace(said.String()))
			root = path[0]
			path = path[:len(path)-1]
			said.Reset()
			if len(r.driveMB) > mostDrives {
				said := fmt.Sprintf("%s with more than %d drives, which is more than a machine has", reportAt, mostDrives)
				return report{}, &bmc.Failure{Said: said}
			}
		}
	}
}

// itselfAt is where an iRMC tells of itself.
const itselfAt = "Root/System/ManagementControllers/iRMC"

// take takes the text of the element at the end of path.
func (r *report) take(path []string, text string) {
	in := strings.Join(path[:min(len(path), 5)], "/")
	if strings.Join(path, "/") == itselfAt+"/Firmware" {
		r.firmware = text
		return
	}
	var into func(int64)
	switch level := len(path); {
	case level == 4 && strings.HasSuffix(in, "/System/Memory/Installed"):
		into = func(v int64) { r.memoryMB = v }
	case level == 5 && path[1] == "System" && path[2] == "Processor" && path[4] == "CoreNumber":
		into = func(v int64) { r.cores += v } // an empty socket has none
	case level > 2 && path[level-2] == "PhysicalDrive" && path[level-1] == "ConfigurableSize":
		into = func(v int64) { r.driveMB = append(r.driveMB, v) }
	default:
		return
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > 1<<40 {
		if len(r.strange) < 10 {
			r.strange = append(r.strange, fmt.Sprintf("%s of the report is %.40q, which is no size and no count", path[len(path)-1], text))
		}
		return
	}
	into(v)
}

// localGB is the sum of all drives, each in whole GiB, as Ironic counts it. An iRMC tells of a drive where ServerView RAID runs.
func (r report) localGB() (sum int64) {
	for _, mb := range r.driveMB {
		sum += mb / 1024
	}
	return sum
}
