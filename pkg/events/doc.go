// Package events is the wire contract: subjects, headers, every message, the
// closed list of errors, the JSON Schemas (schema/) and the AsyncAPI document
// (asyncapi.yaml).
//
// Requests are decoded strictly: duplicates, unknown fields, fractions,
// exponents, bad UTF-8 and values out of bounds are refused with an [*Error]
// that names the field. Each request type has
//
//	DecodeX(data []byte) (X, *Error)   // the broker's side
//	(X) Fingerprint() string           // equal content, equal text
//	json.Marshal(X)                    // the client's side
//
// and each answer type
//
//	(XAnswer) Append(dst []byte) []byte
//	ParseXAnswer(data []byte) (XAnswer, error)  // error may be an *Error
//
// Optional request fields are pointers or nil-able, because an absent field
// and a given default are different content. Readers of answers, events and
// ledger entries ignore unknown fields; an unknown kind or type is a value
// ([KindUnknown], [UnknownEvent]), never a panic.
//
// The package imports nothing of this module.
package events
