package access

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/engine"
)

// hash is cheap; what it is compared with is what counts.
func hash(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// far is a connection from somewhere.
type far struct {
	net.Conn
	from string
}

func (c far) RemoteAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		panic(err)
	}
	return a
}

var here, there = far{from: "127.0.0.1:1"}, far{from: "192.0.2.1:1"}

func passwordFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestEnter(t *testing.T) {
	file := passwordFile(t, "# a comment", "", "filed:"+hash(t, "f"), "other:"+hash(t, "o"))
	users := Config{Passwords: file, Users: []User{{Name: "ann", Password: hash(t, "a"), Publish: []string{"a/#"}, Subscribe: []string{}},
		{Name: "filed"}, {Name: Everybody, Publish: []string{"o"}}, {Name: "device", Certificate: true}}}
	open := users
	open.Anonymous = Anonymous{From: "anywhere", Subscribe: []string{"news/#"}}
	for _, tt := range []struct {
		about          string
		cfg            Config
		nc             net.Conn
		name, password string
		want           error
		pub, sub       string // what it may and the others may not
	}{
		{"right", users, there, "ann", "a", nil, "a/b", ""},
		{"wrong password", users, there, "ann", "b", ErrUnknown, "", ""},
		{"no password", users, here, "ann", "", ErrUnknown, "", ""},
		{"unknown", users, here, "bob", "a", ErrUnknown, "", ""},
		{"of the file", users, there, "filed", "f", nil, "x", "y"},
		{"of the file alone", users, there, "other", "o", nil, "o", "y"},
		{"everybody is no name", users, there, Everybody, "o", ErrUnknown, "", ""},
		{"a certificate is needed", users, there, "device", "", ErrUnknown, "", ""},
		{"too long", users, there, "ann", strings.Repeat("a", 73), ErrUnknown, "", ""},
		{"anonymous where there are users", users, here, "", "", ErrAnonymous, "", ""},
		{"anonymous, open", open, there, "", "", nil, "x", "news/1"},
		{"no users, here", Config{}, here, "", "", nil, "x", "y"},
		{"no users, here, with a name", Config{}, here, "ann", "z", nil, "x", "y"},
		{"no users, elsewhere", Config{}, there, "", "", ErrAnonymous, "", ""},
		{"nobody", Config{Anonymous: Anonymous{From: "nowhere"}}, here, "", "", ErrAnonymous, "", ""},
	} {
		b, err := New(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if needed := tt.name == "" && tt.want != nil; tt.name == "" && b.Needed(tt.nc) != needed {
			t.Errorf("%s: a name is needed: %v", tt.about, !needed)
		}
		for range 2 { // the second time from memory
			i, err := b.Enter(context.Background(), tt.nc, tt.name, tt.password)
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.about, err, tt.want)
			}
			if err != nil {
				continue
			}
			if !i.MayPublish(tt.pub) || tt.sub != "" && !i.MaySubscribe(tt.sub) || i.publish != nil && i.MayPublish("elsewhere") || i.subscribe != nil && i.MaySubscribe("#") {
				t.Errorf("%s: publish %q, subscribe %q", tt.about, i.publish, i.subscribe)
			}
		}
	}
}

// A change of one user leaves the identities of the others as they are.
func TestSet(t *testing.T) {
	a, b, c := User{Name: "a", Password: hash(t, "a")}, User{Name: "b", Password: hash(t, "b")}, User{Name: "c", Password: hash(t, "c")}
	book, err := New(Config{Users: []User{a, b, c}})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]*Identity{}
	for _, n := range []string{"a", "b", "c"} {
		if ids[n], err = book.Enter(context.Background(), there, n, n); err != nil {
			t.Fatal(err)
		}
	}
	b.Publish = []string{"x"}
	if err := book.Set(Config{Users: []User{a, b}}); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[string]bool{"a": false, "b": true, "c": true} {
		if got := book.Stale(there, ids[n]); got != want {
			t.Errorf("%s is stale: %v, want %v", n, got, want)
		}
	}
	if r := book.Rights("b"); r == nil || r.MayPublish("y") || book.Rights("c") != nil {
		t.Error("the rights are not those that were set last")
	}
	if err := book.Set(Config{Passwords: filepath.Join(t.TempDir(), "none")}); err == nil || book.Stale(there, ids["a"]) {
		t.Errorf("a file that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range cap(book.turns) {
		book.turns <- struct{}{}
	}
	if _, err := book.Enter(ctx, there, "b", "wrong"); !errors.Is(err, context.Canceled) {
		t.Errorf("while many compare passwords: %v", err)
	}
}

// A filter is covered if every topic that it matches is, as far as names of up to
// three levels can show.
func TestCovers(t *testing.T) {
	levels := []string{"a", "b", "$x"}
	var names, filters []string
	var grow func(prefix string, depth int)
	grow = func(prefix string, depth int) {
		for _, l := range append(levels, "+", "#") {
			f := strings.TrimPrefix(prefix+"/"+l, "/")
			filters = append(filters, f)
			if !strings.ContainsAny(f, "+#") {
				names = append(names, f)
			}
			if l != "#" && depth < 3 {
				grow(f, depth+1)
			}
		}
	}
	grow("", 1)
	names = append(names, "c", "c/c", "c/c/c", "a/c", "a/a/c", "a/a/a/a", "a/a/a/a/a", "c/c/c/c", "a/b/c/d", "$x/a/b/c", "a/c/c", "a/c/c/c", "b/c/c/c", "b/b/b/b", "c/a", "c/b/a", "c/a/b/b", "c/a/a", "c/b/b/b", "c/a/a/a")
	wrong := 0
	for _, p := range filters {
		for _, f := range filters {
			want := true
			for _, n := range names {
				if engine.Matches(f, n) && !engine.Matches(p, n) {
					want = false
					break
				}
			}
			if got := covers(p, f); got != want && wrong < 10 {
				wrong++
				t.Errorf("%q covers %q: %v, want %v", p, f, got, want)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	h := hash(t, "x")
	bad := Config{Users: []User{{Name: "a:b", Password: h}, {Name: "", Password: h}, {Name: "a"}, {Name: "a", Password: "secret"}, {Name: "c", Password: h, Publish: []string{"x/#/y"}},
		{Name: Everybody}}, Anonymous: Anonymous{From: "home", Subscribe: []string{""}}}
	var fields, texts []string
	bad.Check(func(field, value, want string) {
		fields, texts = append(fields, field), append(texts, value+want)
	})
	want := []string{"users[0].name", "users[1].name", "users[2].password", "users[3].name", "users[3].password", "users[4].publish[0]", "users[5]", "anonymous.from", "anonymous.subscribe[0]"}
	if !slices.Equal(fields, want) {
		t.Errorf("mistakes in %q, want %q", fields, want)
	}
	if strings.Contains(strings.Join(texts, " "), "secret") {
		t.Errorf("a password is shown: %q", texts)
	}
	for text, want := range map[string]string{"a:" + h + "\nnothing": "line 2", "a:plain": "line 1", "a:" + h: "has no rights", "a:" + h + "\na:" + h: "again", ":x": "no name"} {
		var got string
		Config{Passwords: passwordFile(t, text), Users: []User{{Name: "z"}}}.CheckFiles(func(_, value, _ string) { got = value })
		if !strings.Contains(got, want) || strings.Contains(got, "plain") {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestHash(t *testing.T) {
	h, err := Hash([]byte("secret"))
	if err != nil || checkHash(h) != nil || bcrypt.CompareHashAndPassword([]byte(h), []byte("secret")) != nil {
		t.Errorf("%q, %v", h, err)
	}
	for _, p := range []string{"", strings.Repeat("x", 73)} {
		if _, err := Hash([]byte(p)); err == nil {
			t.Errorf("a password of %d bytes is taken", len(p))
		}
	}
}

func FuzzPasswords(f *testing.F) {
	f.Add([]byte("a:" + hash(f, "a") + "\n# b\n\n"))
	f.Add([]byte("a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		hashes, err := parsePasswords(text)
		for name, h := range hashes {
			if err == nil && (!goodName(name) || checkHash(h) != nil) {
				t.Errorf("%q has %q", name, h)
			}
		}
	})
}
