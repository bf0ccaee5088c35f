package fields

// Use is something that a request does with a field. Uses are combined with |.
type Use uint8

// What requests do with fields.
const (
	Posting  Use = 1 << iota // POST sets it
	Patching                 // PATCH is about it
	Asking                   // the argument fields names it
	Sorting                  // the argument sort_key names it
)

// Early lets requests that are older than the field use it so: Ironic does not look at their
// version there, so clients that never asked for the field's version do it. Answers of that
// version leave the field out all the same, unless it was asked for.
func (f Field[T]) Early(uses Use) Field[T] { f.early = uses; return f }

// Admits reports whether the field may be used so at a version that is older than it.
func (f *Field[T]) Admits(use Use) bool { return f.early&use != 0 }
