package procfs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Family returns the process that started pid, and all that it has started and that are there: of a server that serves each request in
// a process of its own, its parent and all workers. It returns nothing if that cannot be read: there is no such process, the parent is another
// program, such as init after the server's own has ended, or the kernel was built without CONFIG_PROC_CHILDREN.
func Family(pid int64) []int64 {
	name, parent, ok := lineage(strconv.FormatInt(pid, 10))
	if !ok {
		return nil
	}
	if its, _, ok := lineage(parent); !ok || its != name {
		return nil
	}
	// A parent of several threads has children of each of them; servers that fork their workers have one.
	text, err := os.ReadFile("/proc/" + parent + "/task/" + parent + "/children")
	if err != nil {
		return nil
	}
	var all []int64
	for word := range strings.FieldsSeq(parent + " " + string(text)) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// lineage returns the program's name of a process, and its parent.
func lineage(pid string) (name, parent string, ok bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", "", false
	}
	return parseLineage(text)
}

// parseLineage reads "pid (name) state ppid …", in which a name may hold anything.
func parseLineage(text []byte) (name, parent string, ok bool) {
	before, rest, ok := cutLast(text, ')')
	_, comm, named := bytes.Cut(before, []byte("("))
	fields := bytes.Fields(rest)
	if !ok || !named || len(fields) < 2 {
		return "", "", false
	}
	_, err := strconv.ParseUint(string(fields[1]), 10, 32)
	return string(comm), string(fields[1]), err == nil
}
