package culprits

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
)

// phpWorkers is how many scripts run at once, and how many slow ones come.
const phpWorkers = 8

// scripts are the pages: one of a millisecond or so, one that tells its process and then waits for
// something else for as long as it is told.
var scripts = map[string]string{
	"fast.php": "<?php $x = 0; for ($i = 0; $i < 20000; $i++) { $x += $i; } echo $x;",
	"slow.php": "<?php while (ob_get_level()) { ob_end_flush(); } echo getmypid(), \"\\n\"; flush(); usleep((int)$_GET['us']);",
}

// apacheScenes are the forms of c9.
func apacheScenes() []scene {
	form := func(name, title, about string) scene {
		s := scene{name: name, title: title, about: about, objective: 100 * ms, measured: true, rate: 200, lasts: 10 * time.Second}
		for range phpWorkers {
			s.culprits = append(s.culprits, func(ctx context.Context, b *bench, size float64, mark func(int64)) error {
				return slowPage(ctx, b.root, time.Duration(size*float64(s.lasts)), mark)
			})
		}
		s.request = func(ctx context.Context, b *bench, _ int) error { return page(ctx, b.root+"/fast.php", nil) }
		s.contenders = func() []contender { return again(contenders()) }
		return s
	}
	module := form("c9", "Slow PHP pages take all workers of an Apache (c9)", `Apache httpd with MPM prefork and 8 workers runs PHP in its processes. Eight requests for a page that waits
for something else take all of them; requests of a millisecond then lie in the accept queue. mod_status would
lie there too. The guard sees workers and queue through mod_spillgate, which is built for the run: it needs a
checkout of the sources, and apache2-dev.`)
	module.start = startApache
	module.native, module.nativeTitle = limitScripts, "max_execution_time 1, which does not count waiting"
	pool := form("c9-fpm", "Slow PHP pages take all workers of a PHP-FPM behind Apache (c9)", `The same pages in PHP-FPM with 8 workers, behind an Apache with more. The guard reads FPM's status at
an address of its own (pm.status_listen), and ends a worker, as FPM's own time limit does.`)
	pool.start = startPool
	pool.native, pool.nativeTitle = limitPool, "request_terminate_timeout 1s"
	return append([]scene{module, pool, againScene()}, webFurther()...)
}

// web is what requests are sent with. It keeps no connection: in a prefork server one takes a
// worker.
var web = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// page gets a page; first, if not nil, is told its first line as soon as it comes.
func page(ctx context.Context, url string, first func(line string)) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := web.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	if first != nil {
		line, _ := body.ReadString('\n')
		first(strings.TrimSpace(line))
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// slowPage is the culprit. Whether it was cancelled is nothing to it.
func slowPage(ctx context.Context, root string, length time.Duration, mark func(int64)) error {
	_ = page(ctx, fmt.Sprintf("%s/slow.php?us=%d", root, length.Microseconds()), func(line string) {
		if pid, err := strconv.ParseInt(line, 10, 64); err == nil {
			mark(pid)
		}
	})
	return nil
}

// startApache starts an Apache that runs PHP itself.
func startApache(ctx context.Context) (*bench, error) {
	return startModule(ctx, servers.ApacheConfig{Files: scripts, Settings: "KeepAlive Off\n<Directory />\n  AllowOverride All\n</Directory>\n"})
}

// startModule starts an Apache of phpWorkers that runs PHP itself, with the module that registers requests.
func startModule(ctx context.Context, config servers.ApacheConfig) (*bench, error) {
	dir, err := os.MkdirTemp("", "spillgate-module-")
	if err != nil {
		return nil, err
	}
	remove := func() { os.RemoveAll(dir) }
	module, err := servers.ApacheModule(ctx, dir)
	if err == nil {
		err = os.Chmod(dir, 0o755) // the server's user reads it
	}
	var s *servers.Server
	if err == nil {
		config.Workers, config.PHP, config.Module = phpWorkers, true, module
		s, err = servers.Apache(ctx, config)
	}
	if err != nil {
		remove()
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(s.Port)
	return &bench{url: "apache://" + address + s.TaskFile(), root: "http://" + address, programs: s.Documents(), used: s.CPU, stop: func() {
		s.Stop()
		remove()
	}, reload: func() error { return syscall.Kill(s.Pid(), syscall.SIGUSR1) }}, nil
}

// limitScripts sets PHP's time limit for all pages.
func limitScripts(_ context.Context, b *bench, on bool) error {
	file := filepath.Join(b.programs, ".htaccess")
	if !on {
		return os.Remove(file)
	}
	return os.WriteFile(file, []byte("php_value max_execution_time 1\n"), 0o644)
}

// startPool starts a PHP-FPM, and an Apache in front of it.
func startPool(ctx context.Context) (*bench, error) {
	fpm, err := servers.PHPFPM(ctx, servers.PHPFPMConfig{Workers: phpWorkers, Files: scripts})
	if err != nil {
		return nil, err
	}
	s, err := servers.Apache(ctx, servers.ApacheConfig{Workers: 8 * phpWorkers, Modules: []string{"proxy", "proxy_fcgi"},
		Settings: fmt.Sprintf("ProxyPass / fcgi://127.0.0.1:%d%s/ flushpackets=on\n", fpm.Port, fpm.Documents())})
	if err != nil {
		fpm.Stop()
		return nil, err
	}
	b := &bench{url: fmt.Sprintf("php-fpm://127.0.0.1:%d/status?listen=127.0.0.1:%d", fpm.ExtraPort, fpm.Port),
		root: "http://127.0.0.1:" + strconv.Itoa(s.Port), programs: fpm.Dir}
	b.used = func() time.Duration { return s.CPU() + fpm.CPU() }
	b.stop = func() {
		s.Stop()
		fpm.Stop()
	}
	b.reload = func() error { return syscall.Kill(fpm.Pid(), syscall.SIGUSR2) }
	return b, nil
}

// limitPool sets FPM's time limit, and loads it.
func limitPool(ctx context.Context, b *bench, on bool) error {
	const limit = "request_terminate_timeout = 1s\n"
	file := filepath.Join(b.programs, "fpm.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed := strings.ReplaceAll(string(text), limit, "")
	if on {
		changed += limit
	}
	if err := errors.Join(os.WriteFile(file, []byte(changed), 0o644), b.reload()); err != nil {
		return err
	}
	for range 100 { // it listens throughout, and answers when it is loaded
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * ms):
		}
		if err = page(ctx, b.root+"/fast.php", nil); err == nil {
			break
		}
	}
	return err
}
