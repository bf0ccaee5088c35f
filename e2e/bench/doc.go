// Package bench measures what the project claims about speed and cost; make bench
// prints it. It may import everything.
package bench
