// Package evidence says what a file is, for files that corrections rest on.
//
// A type is taken from the content alone, by a library that knows the magic
// numbers; what the caller says and what the file is called decide nothing. A
// short list is allowed: documents, pictures and text that run nothing. A file
// that is two things at once, or whose name has an ending that its content
// contradicts, is refused.
package evidence
