package mariadb

import (
	"database/sql"
	"testing"
)

// The host of a client ends at the last colon of what the server shows, behind which its port is.
func TestHostOfAClient(t *testing.T) {
	start(t)
	db, err := sql.Open("mysql", server.s.MySQLDSN("mysql", false))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for shown, want := range map[string]string{
		"localhost":                   "localhost",
		"10.0.0.7:51234":              "10.0.0.7",
		"db.example:51234":            "db.example",
		"::1:51234":                   "::1",
		"2001:db8:1:2:3:4:5:6:51234":  "2001:db8:1:2:3:4:5:6",
		"fe80::aaaa:bbbb:cccc:1:3306": "fe80::aaaa:bbbb:cccc:1",
		"":                            "",
	} {
		var got string
		if err := db.QueryRowContext(t.Context(), "SELECT "+hostSQL("'"+shown+"'")).Scan(&got); err != nil || got != want {
			t.Errorf("%q: %q, %v; expected %q", shown, got, err, want)
		}
	}
}
