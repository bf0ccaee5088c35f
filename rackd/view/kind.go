package view

import "github.com/ironyard/ironyard/protocol/alike"

// kind is what nodes of one hardware type and conductor group have in common. Their
// documents are much alike: the fields that they have, the hardware's interfaces, the image
// that half of the machines run. So they are packed together, into a third of what they are.
// Safe for concurrent use.
type kind struct {
	driver, group string
	token         string // of the group, in keys
	alike.Packer
}

// enoughSample is how much of the first documents becomes the dictionary.
const enoughSample = 12 << 10
