//go:build !unix

package proxy

import "errors"

const canReadAhead = false

func (a *ahead) fill() error { return errors.ErrUnsupported }
