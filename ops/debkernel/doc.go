// Package debkernel obtains a Debian kernel without installing it: it downloads
// the package with apt, unpacks it into a cache folder, and lists modules in the
// order in which they have to be loaded.
//
// It owns the layout of the cache folder and may import nothing of the project.
// Invariants: a folder in the cache is complete or absent (it appears by one
// rename); a cached kernel is never replaced, so that what is built from it stays
// the same bytes until the cache is deleted; several processes may share a cache.
//
// Dependencies come from each module's own .modinfo section, not from
// modules.dep: Debian's kernel packages ship without it, and depmod would be one
// more program to need.
package debkernel
