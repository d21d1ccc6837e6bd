package lint

import "strconv"

// Unused returns what house allows and nothing in the source tree below root
// needs: directories of rows that hold no Go code, edges that no import takes,
// pairs kept apart of which one half is missing. A house that lists what does
// not exist describes another project.
func Unused(root string, house House) ([]string, error) {
	m, err := load(root)
	if err != nil {
		return nil, err
	}
	var unused []string
	for _, row := range house.Rows {
		for _, dir := range row.Dirs {
			if !m.holds(dir) {
				unused = append(unused, "row "+row.Name+" lists "+dir+", which holds no Go code")
			}
		}
	}
	for _, edge := range house.Edges {
		if !m.takes(edge) {
			unused = append(unused, "edge "+edge.From+" -> "+edge.To+" is not needed by any import")
		}
	}
	for _, pair := range house.Apart {
		for _, dir := range pair {
			if !m.holds(dir) {
				unused = append(unused, dir+" is to stay apart, and holds no Go code")
			}
		}
	}
	return unused, nil
}

// holds reports whether entry, a directory or "x/...", holds Go code.
func (m *module) holds(entry string) bool {
	for _, key := range m.keys {
		if covers(entry, m.dirs[key].path) {
			return true
		}
	}
	return false
}

// takes reports whether an import that is not a test's goes along edge.
func (m *module) takes(edge Edge) bool {
	for _, key := range m.keys {
		d := m.dirs[key]
		if !covers(edge.From, d.path) {
			continue
		}
		for _, f := range d.files {
			for _, spec := range f.ast.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil || f.test {
					continue
				}
				if to, local := m.local(imported); local && covers(edge.To, to) {
					return true
				}
			}
		}
	}
	return false
}
