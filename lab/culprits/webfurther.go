package culprits

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
)

// webFurther are more culprits of an Apache: what holds its workers is a client, or a program that the server has started.
func webFurther() []scene {
	form := func(name, title, about, path string, culprit func(ctx context.Context, root string, size float64) error) scene {
		s := scene{name: name, title: title, about: about, objective: 100 * ms, rate: 200, lasts: 10 * time.Second, application: path, start: startPrograms,
			native: func(context.Context, *bench, bool) error { return nil }, nativeTitle: "none: Timeout, 60 s, is for each read or write"}
		for range phpWorkers {
			s.culprits = append(s.culprits, func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
				mark(searchCulprit)
				ctx, cancel := context.WithTimeout(ctx, time.Duration(size*float64(s.lasts)))
				defer cancel()
				for ctx.Err() == nil {
					if err := culprit(ctx, b.root, size); err != nil {
						_ = pause(ctx, askAgain)
					}
				}
				return nil
			})
		}
		s.request = func(ctx context.Context, b *bench, _ int) error { return page(ctx, b.root+"/fast.php", nil) }
		s.contenders = func() []contender { return again(contenders()) }
		s.mend = s.calm // programs go on for a while without their clients
		return s
	}
	return []scene{
		form("c9-upload", "Slow uploads take all workers of an Apache", `Apache httpd with MPM prefork and 8 workers runs PHP in its processes. Eight clients send a body to a page a byte at a time, and
again when they were cut off.`, "/upload.php", upload),
		form("c9-cgi", "CGI programs that hang take all workers of an Apache", `Apache httpd with MPM prefork and 8 workers. Eight requests for a CGI program that hangs take all of them, and come again when they were cut
off.`, "/hang.sh", func(ctx context.Context, root string, _ float64) error { return page(ctx, root+"/hang.sh", nil) }),
	}
}

// startPrograms starts an Apache that runs PHP itself, and CGI programs.
func startPrograms(ctx context.Context) (*bench, error) {
	b, err := startModule(ctx, servers.ApacheConfig{Modules: []string{"cgi"},
		Files:    map[string]string{"fast.php": scripts["fast.php"], "upload.php": "<?php echo strlen(file_get_contents('php://input'));", "hang.sh": "#!/bin/sh\nexec sleep 10\n"},
		Settings: "KeepAlive Off\nAddHandler cgi-script .sh\n<Directory />\n  Options +ExecCGI\n</Directory>\n"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(b.programs, "hang.sh"), 0o755); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// upload sends a body of some hundred bytes, ten a second.
func upload(ctx context.Context, root string, size float64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, root+"/upload.php", &drip{ctx, int(100 * size)})
	if err != nil {
		return err
	}
	r.ContentLength = int64(100 * size)
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, err := web.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || strings.TrimSpace(string(answer)) == "") {
		err = fmt.Errorf("an upload: %s", resp.Status)
	}
	return err
}

// drip is a body that comes a byte at a time.
type drip struct {
	ctx  context.Context
	left int
}

func (d *drip) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	if err := pause(d.ctx, 100*ms); err != nil {
		return 0, err
	}
	d.left--
	p[0] = 'x'
	return 1, nil
}
