package guard

import "testing"

// TestLabelsHaveNoPasswords: also where one was not escaped and the URL means something else.
func TestLabelsHaveNoPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:s3cret@h:5432/d?x=y": "postgres://h:5432/d", "mariadb://h": "mariadb://h", "apache://h:80/run/a@b": "apache://(unreadable)",
		"postgres://u:12/s3cret@h/d": "postgres://(unreadable)", "mysql://u:12#s3cret@h": "mysql://(unreadable)", "postgres://u:12?s3cret@h": "postgres://(unreadable)",
		"postgres://u:s3cret%@h": "postgres://(unreadable)",
	} {
		if got := Label(url); got != want {
			t.Errorf("%s is called %s, expected %s", url, got, want)
		}
	}
}
