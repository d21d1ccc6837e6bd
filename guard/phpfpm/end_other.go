//go:build !linux

package phpfpm

import "errors"

// end signals nothing: without /proc no worker is known for one of FPM's.
func end(int64, bool, func() (bool, error)) (bool, error) {
	return false, errors.New("php-fpm: requests are cancelled on Linux alone")
}
