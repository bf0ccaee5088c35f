// Package lab is a whole virtual rack: a network, machines and their BMCs, made,
// served, described and removed as one.
//
// It owns the lab's folder and its description, lab.json, by which any process can
// look at a lab or take it down. It may import the packages of ops/virtual that make a
// machine: netns, machine, uefivars and vbmc.
// Invariants: Up and Down are idempotent; one process at a time serves a lab's
// BMCs, held by a lock; machines run on when that process ends, until Down.
package lab
