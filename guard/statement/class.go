package statement

import (
	"slices"
	"strings"
)

// Class is a sort of work.
type Class uint8

// The classes. Only the first words of a statement decide; of several in one text, the first that is a change of the schema, a backup or
// replication, else the first.
const (
	Other       Class = iota
	Select            // reads
	Write             // INSERT, UPDATE, DELETE, MERGE, REPLACE
	Control           // BEGIN, COMMIT, SET, SHOW, …
	LockTable         // LOCK TABLE(S), UNLOCK
	Copy              // COPY, LOAD DATA
	Schema            // CREATE, ALTER, DROP, TRUNCATE, REINDEX, CLUSTER, VACUUM FULL, OPTIMIZE, …
	Vacuum            // VACUUM without FULL, ANALYZE, CHECK TABLE
	Backup            // FLUSH TABLES WITH READ LOCK, BACKUP, a dump's export
	Flush             // FLUSH of tables, privileges, logs
	Replication       // START_REPLICATION, BINLOG, CHANGE MASTER
	numClasses
)

var classNames = [numClasses]string{"other", "select", "write", "control", "lock table", "copy", "schema", "vacuum", "backup", "flush", "replication"}

// String returns the word that files and logs use.
func (c Class) String() string {
	if c < numClasses {
		return classNames[c]
	}
	return "other"
}

// ParseClass is the inverse of String.
func ParseClass(word string) (Class, bool) {
	for c, name := range classNames {
		if name == word {
			return Class(c), true
		}
	}
	return Other, false
}

// ClassNames returns what ParseClass takes.
func ClassNames() []string { return classNames[:] }

// classes maps first words.
var classes = map[string]Class{
	"select": Select, "with": Select, "table": Select, "values": Select, "fetch": Select, "explain": Select, "handler": Select,
	"insert": Write, "update": Write, "delete": Write, "merge": Write, "replace": Write,
	"begin": Control, "start": Control, "commit": Control, "end": Control, "rollback": Control, "abort": Control, "savepoint": Control, "release": Control,
	"set": Control, "show": Control, "reset": Control, "discard": Control, "use": Control, "listen": Control, "notify": Control, "unlisten": Control,
	"prepare": Control, "deallocate": Control, "kill": Control, "close": Control, "describe": Control, "desc": Control,
	"lock": LockTable, "unlock": LockTable,
	"copy": Copy, "load": Copy,
	"create": Schema, "alter": Schema, "drop": Schema, "truncate": Schema, "reindex": Schema, "cluster": Schema, "refresh": Schema, "comment": Schema,
	"grant": Schema, "revoke": Schema, "rename": Schema, "optimize": Schema, "repair": Schema, "import": Schema, "security": Schema,
	"vacuum": Vacuum, "analyze": Vacuum, "check": Vacuum, "checksum": Vacuum, "autovacuum": Vacuum,
	"backup": Backup, "flush": Flush, "install": Schema, "uninstall": Schema, "xa": Control,
	"start_replication": Replication, "base_backup": Backup, "binlog": Replication, "change": Replication, "stop": Replication, "purge": Replication,
}

// classOf returns the class of a normalised text, which may have several statements.
func classOf(text string) Class {
	first, more, several := strings.Cut(text, " ; ")
	class := classOfOne(first)
	for part := ""; several && !class.delicate(); {
		part, more, several = strings.Cut(more, " ; ")
		if c := classOfOne(part); c.delicate() {
			class = c
		}
	}
	return class
}

// delicate reports whether what is of the class is left alone unless somebody says otherwise.
func (c Class) delicate() bool { return c == Schema || c == Backup || c == Replication }

// classOfOne returns the class of one statement.
func classOfOne(text string) Class {
	text = strings.TrimLeft(text, "(; ") // a statement may be empty
	first, rest, _ := strings.Cut(text, " ")
	class := classes[first]
	switch {
	case class == Flush && strings.Contains(rest, "read lock"), class == Flush && strings.Contains(rest, "for export"):
		return Backup
	case first == "vacuum" && fullVacuum(rest):
		return Schema
	case first == "with" && (strings.Contains(rest, " insert into ") || strings.Contains(rest, " update ") || strings.Contains(rest, " delete from ")):
		return Write
	case first == "explain" && strings.HasPrefix(rest, "analyze "):
		return classOfOne(strings.TrimPrefix(rest, "analyze "))
	case first == "lock" && strings.HasPrefix(rest, "instance for backup"):
		return Backup
	case first == "set":
		return classOfSet(rest)
	case (first == "start" || first == "reset") && replicates(rest):
		return Replication
	}
	return class
}

// classOfSet tells SET STATEMENT … FOR, which MariaDB has before any statement, and the end of all writes, with which servers change
// roles, from other settings.
func classOfSet(rest string) Class {
	if scope, ok := strings.CutPrefix(rest, "statement "); ok {
		_, inner, _ := strings.Cut(scope, " for ")
		return classOfOne(inner)
	}
	if strings.Contains(rest, "global") && strings.Contains(rest, "read_only") {
		return Replication
	}
	return Control
}

// replicates reports whether START or RESET is about replication.
func replicates(rest string) bool {
	word, _, _ := strings.Cut(strings.TrimPrefix(rest, "all "), " ")
	return slices.Contains([]string{"slave", "slaves", "replica", "replicas", "group_replication", "master", "binary"}, word)
}

// fullVacuum tells VACUUM FULL t and VACUUM (FULL, …) t from VACUUM t.
func fullVacuum(rest string) bool {
	if options, ok := strings.CutPrefix(rest, "( "); ok {
		options, _, _ = strings.Cut(options, " )")
		for option := range strings.SplitSeq(options, " , ") {
			if option == "full" || option == "full true" || option == "full on" {
				return true
			}
		}
		return false
	}
	return rest == "full" || strings.HasPrefix(rest, "full ")
}
