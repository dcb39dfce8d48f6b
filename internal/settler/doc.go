// Package settler is the role that takes money back: settle and release, from
// both doors, and from operators on an agent's behalf. It also purges COMMANDS
// of what both roles have finished.
//
// Who may resolve a reservation is decided inside the script, from the record.
package settler
