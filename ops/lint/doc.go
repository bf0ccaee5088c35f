// Package lint holds the rules of the code base that are checked as tests: the
// import table of the architecture, package docs, names, file sizes, what the
// Makefile lists. It owns no code of the product.
package lint
