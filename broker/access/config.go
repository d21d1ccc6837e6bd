package access

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/engine"
)

const (
	// MaxUsers is the most users, of the configuration and the file together.
	MaxUsers = 10_000
	// MaxRights is the most topics of one user's rights, in each direction: the first
	// message to a topic looks at each.
	MaxRights = 100
	// MaxPasswords is the largest file of passwords, in bytes.
	MaxPasswords = 4 << 20
	// maxName is the longest name of a user, in bytes.
	maxName = 256
	// maxCost is the highest cost of a bcrypt hash: it takes about a second of
	// processor time, and one more doubles it.
	maxCost = 14
	// MaxPassword is the longest password, in bytes, that bcrypt tells apart.
	MaxPassword = 72
)

// Everybody is the name of the user whose rights those have that only the file of
// passwords names.
const Everybody = "*"

// User is one user.
type User struct {
	// Name is what the client says, or the common name of its certificate. Required.
	Name string
	// Password is a bcrypt hash. Default none: the file of passwords may have one.
	Password string
	// Certificate lets a client in without a password that shows a certificate with
	// Name as its common name.
	Certificate bool
	// Publish and Subscribe are the topics or filters that the user may publish to and
	// subscribe to: a subscription must lie within one of them. Nil means all, an
	// empty list none.
	Publish, Subscribe []string
}

// Anonymous says what clients may do that do not say who they are.
type Anonymous struct {
	// From is where they may come from: "loopback" is this machine, "anywhere",
	// "nowhere". Default loopback without users, nowhere with users.
	From string
	// Publish and Subscribe are those of a User.
	Publish, Subscribe []string
}

// Config describes users. Its zero value has none and lets anonymous clients of
// this machine do everything.
type Config struct {
	// Users are the users. Default none. Can change while the broker runs.
	Users []User
	// Passwords is a file of lines "name:hash" with bcrypt hashes, as htpasswd -B
	// writes them. Default none. A user that it names has the rights of the entry in
	// Users with its name, or of the one named Everybody.
	Passwords string
	// Anonymous are clients without a name.
	Anonymous Anonymous
}

// None reports whether there are no users.
func (c Config) None() bool { return len(c.Users) == 0 && c.Passwords == "" }

// From returns where anonymous clients may come from: loopback, anywhere or nowhere.
func (c Config) From() string {
	switch {
	case c.Anonymous.From != "":
		return c.Anonymous.From
	case c.None():
		return "loopback"
	}
	return "nowhere"
}

// Remote reports whether clients from other machines may connect.
func (c Config) Remote() bool { return !c.None() || c.From() == "anywhere" }

// Check calls wrong for every mistake in c: the field as configuration files name
// it, what was found and what was expected.
func (c Config) Check(wrong func(field, value, want string)) {
	if len(c.Users) > MaxUsers {
		wrong("users", strconv.Itoa(len(c.Users))+" users", fmt.Sprintf("at most %d", MaxUsers))
	}
	seen := map[string]int{}
	for i := range c.Users {
		u := &c.Users[i]
		field := fmt.Sprintf("users[%d]", i)
		if first, dup := seen[u.Name]; dup {
			wrong(field+".name", strconv.Quote(u.Name), fmt.Sprintf("a name of its own: users[%d] has it", first))
		} else {
			seen[u.Name] = i
		}
		switch {
		case !goodName(u.Name):
			wrong(field+".name", quoted(u.Name), fmt.Sprintf("1 to %d bytes without a colon or control characters", maxName))
		case u.Name == Everybody && (u.Password != "" || u.Certificate || c.Passwords == ""):
			wrong(field, "the user "+strconv.Quote(Everybody), "only rights in it, and a file passwords: it stands for those that the file alone names")
		case u.Name != Everybody && u.Password == "" && !u.Certificate && c.Passwords == "":
			wrong(field+".password", "", "a bcrypt hash (`spillgate broker password` makes one), certificate: true, or a file passwords")
		}
		if u.Password != "" && checkHash(u.Password) != nil {
			wrong(field+".password", "a text that is not shown", checkHash(u.Password).Error())
		}
		checkRights(wrong, field, u.Publish, u.Subscribe)
	}
	switch c.Anonymous.From {
	case "", "loopback", "anywhere", "nowhere":
	default:
		wrong("anonymous.from", strconv.Quote(c.Anonymous.From), "loopback, anywhere or nowhere")
	}
	checkRights(wrong, "anonymous", c.Anonymous.Publish, c.Anonymous.Subscribe)
}

// CheckFiles calls wrong for every mistake in the file of passwords.
func (c Config) CheckFiles(wrong func(field, value, want string)) {
	if c.Passwords == "" {
		return
	}
	if _, err := c.passwords(); err != nil {
		wrong("passwords", strconv.Quote(c.Passwords)+": "+err.Error(), "lines \"name:hash\" with bcrypt hashes")
	}
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return strconv.Quote(s)
}

func goodName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' })
}

func checkHash(hash string) error {
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil || len(hash) != 60 || cost > maxCost {
		return fmt.Errorf("a bcrypt hash such as $2y$10$…, of cost %d to %d", bcrypt.MinCost, maxCost)
	}
	return nil
}

func checkRights(wrong func(field, value, want string), field string, publish, subscribe []string) {
	for _, r := range [...]struct {
		name string
		list []string
	}{{"publish", publish}, {"subscribe", subscribe}} {
		if len(r.list) > MaxRights {
			wrong(field+"."+r.name, strconv.Itoa(len(r.list))+" filters", fmt.Sprintf("at most %d", MaxRights))
		}
		for i, f := range r.list {
			if err := engine.CheckFilter(f); err != nil {
				wrong(fmt.Sprintf("%s.%s[%d]", field, r.name, i), err.Error(), "a topic or a filter, for example plant/+/alarm")
			}
		}
	}
}

// passwords reads the file. The error names lines and never what they hold.
func (c Config) passwords() (map[string]string, error) {
	text, err := os.ReadFile(c.Passwords)
	if err != nil {
		return nil, err
	}
	hashes, err := parsePasswords(text)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i := range c.Users {
		known[c.Users[i].Name] = true
	}
	for name := range hashes {
		if !known[name] && !known[Everybody] {
			return nil, fmt.Errorf("user %q has no rights: expected an entry of users with that name, or one named %q", name, Everybody)
		}
	}
	return hashes, nil
}

// parsePasswords reads lines "name:hash"; empty ones and those that begin with # are
// skipped.
func parsePasswords(text []byte) (map[string]string, error) {
	if len(text) > MaxPasswords {
		return nil, fmt.Errorf("%d bytes, expected at most %d", len(text), MaxPasswords)
	}
	hashes := map[string]string{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, hash, _ := strings.Cut(string(line), ":")
		if !goodName(name) || name == Everybody {
			return nil, fmt.Errorf("line %d has no name, expected name:hash", number)
		}
		if err := checkHash(hash); err != nil {
			return nil, fmt.Errorf("line %d: behind the name expected %w", number, err)
		}
		if _, dup := hashes[name]; dup {
			return nil, fmt.Errorf("line %d names %q again, expected one line a user", number, name)
		}
		if hashes[name] = hash; len(hashes) > MaxUsers {
			return nil, fmt.Errorf("more than %d users", MaxUsers)
		}
	}
	return hashes, nil
}

// Hash returns the bcrypt hash of a password.
func Hash(password []byte) (string, error) {
	if len(password) == 0 || len(password) > MaxPassword {
		return "", fmt.Errorf("the password has %d bytes, expected 1 to %d", len(password), MaxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword(password, bcrypt.DefaultCost)
	return string(hash), err
}
