// Package audit decides how the decisions of a culprit engine are written down, so
// that each can be computed again from the log.
//
// A log is a sequence of JSON objects, one a line. Several sources may share it:
//
//	{"v":2,"source":"db1","config":{…}}      an engine begins, or a file does
//	{"source":"db1","state":"…"}             what the engine remembered, before an incident
//	{"source":"db1","sample":{…},"decision":{…}}   one look and what was decided
//	{"source":"db1","event":"…",…}           anything else; not replayed
//
// An incident begins with the first look that is suspect and ends some looks after
// the last. Looks outside of incidents are not written: a quiet application writes
// nothing. Of an incident that goes on for long without news, such as an action or another culprit, few
// looks are written, each with the state before.
//
// Invariants: replaying a log gives the decisions of the log byte for byte, with the
// version of the program that wrote it and on the same kind of processor; a log that
// is damaged, cut off or foreign is reported with its line, and harms nothing.
//
// What this package does not do: it rotates and locks no file. No type is
// safe for concurrent use.
package audit
