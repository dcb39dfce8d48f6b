// Package archtest holds the house rules as tests: who may import whom, how
// large things may be, what is written nowhere. The tests read the sources in
// their own process, so that go test's cache sees every change.
package archtest
