// Package bench measures what the project claims about speed and cost; make bench
// prints it, docs/benchmarks.md keeps it. It may import everything.
//
// What is measured are the programs themselves: rackds are processes that are killed
// as such, on a bus that writes to disk before it answers. Set IRONYARD_BENCH_KILLS to
// a small number for a look instead of a measurement.
package bench
