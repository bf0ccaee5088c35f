// Package powercut shows what the disk may hold after the power was cut: it records what SQLite
// writes to the files of a database and when it has them synced, and builds from any moment of the
// record such files as a disk could have that has kept what was synced and of the rest whatever
// it liked.
//
// What it takes for granted of a disk and its file system:
//   - what was written before a sync began is there once the sync has ended;
//   - of anything else any part may be there or not, in any order, by sectors of 512 bytes; the size of a
//     file may be that of a write whose bytes are not there, which are zero then;
//   - a sector holds what it held before or what was written, nothing else: SQLite counts on it too
//     (https://www.sqlite.org/psow.html);
//   - a new file has its name in the folder once a journal or log beside it was synced, as
//     SQLite syncs the folder with those.
//
// It may import nothing of the project, and is for tests only: a Record is of one database, and safe
// for concurrent use.
package powercut
