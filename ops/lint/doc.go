// Package lint holds the rules of the code base that are checked as tests: the
// import table of the architecture, package docs, names and file sizes. It owns no
// code of the product.
package lint
