// Package versions runs programs of two versions beside each other: today's, and one whose documents on the bus have a field
// more. Central and rackd are upgraded in either order.
//
// It holds tests alone. The other version is made by the Go compiler's overlay of single files.
package versions
