package worldfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/world"
)

// MaxSize is the largest world file, in bytes. The YAML parser takes time that grows
// faster than its input; at this size the worst known takes about a second.
const MaxSize = 64 << 10

// Load reads the world file at path and the files that it names, relative to its
// directory. A world without a name gets that of the file. The error joins every
// *plainyaml.Mistake.
func Load(path string) (*world.World, error) {
	data, err := read(path)
	if err != nil {
		return nil, &plainyaml.Mistake{File: path, Value: err.Error(), Want: "a readable file"}
	}
	return parse(path, data, func(name string) (io.ReadCloser, error) { return os.Open(name) })
}

// read returns the contents of a file, up to one byte more than is allowed.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

type (
	node = plainyaml.Node
	keys = plainyaml.Keys
)

// decoder fills a world from a tree.
type decoder struct {
	*plainyaml.Decoder
	name string
	open func(name string) (io.ReadCloser, error)
}

// parse reads a world from data. open opens the files that it names.
func parse(name string, data []byte, open func(name string) (io.ReadCloser, error)) (*world.World, error) {
	d := &decoder{plainyaml.New(name), name, open}
	if len(data) > MaxSize {
		d.Whole(fmt.Sprintf("more than %d bytes", MaxSize), fmt.Sprintf("at most %d bytes", MaxSize))
		return nil, d.Err()
	}
	root, ok := d.Parse(data)
	if !ok {
		return nil, d.Err()
	}
	w := &world.World{}
	d.world(root, w)
	if w.Name == "" {
		w.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	}
	resolve(w)
	for _, m := range w.Check() {
		d.Found(m.Path, m.Value, m.Want)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return w, nil
}

// path returns a path in the file relative to the directory of the file.
func (d *decoder) path(s string) string {
	if filepath.IsAbs(s) {
		return s
	}
	return filepath.Join(filepath.Dir(d.name), s)
}

// resolve gives targets that name a service alone its one method.
func resolve(w *world.World) {
	only := map[string]string{}
	for i := range w.Services {
		if s := &w.Services[i]; len(s.Methods) == 1 {
			only[s.Name] = s.Methods[0].Name
		}
	}
	fix := func(t *world.Target) {
		if t.Method == "" {
			t.Method = only[t.Service]
		}
	}
	for i := range w.Services {
		for k := range w.Services[i].Methods {
			steps := w.Services[i].Methods[k].Steps
			for n := range steps {
				for c := range steps[n].Call {
					fix(&steps[n].Call[c])
				}
			}
		}
	}
	for i := range w.Clients {
		for k := range w.Clients[i].Ask {
			fix(&w.Clients[i].Ask[k].Target)
		}
	}
}
