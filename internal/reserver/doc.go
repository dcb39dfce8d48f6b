// Package reserver is the role that gives money out: reserve, extend and
// charge from both doors; balance, reservation and whoami from the direct one.
//
// A batch of requests becomes one pipeline of scripts:
//
//	decode → who asks, and which limits are on the path (registry) → scripts → answer
//
// Nothing is decided here. The script checks and takes; this package builds
// its arguments from what the registry knows, and asks the registry anew when
// the script says that this was stale.
package reserver
