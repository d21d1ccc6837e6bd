package phpfpm

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The part of FastCGI 1.0 that a request without a body needs.
const (
	version      = 1
	beginRequest = 1
	endRequest   = 3
	params       = 4
	stdin        = 5
	stdout       = 6
	responder    = 1
	headerBytes  = 8
	requestID    = 1
)

// mostAnswer bounds an answer, in bytes: a page tells a worker in about 400.
const mostAnswer = 4 << 20

var errTooLong = fmt.Errorf("an answer of more than %d bytes, expected a status page", mostAnswer)

// ask sends one request and returns its answer, headers and body.
func ask(ctx context.Context, network, address string, variables [][2]string) ([]byte, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	} else {
		_ = conn.SetDeadline(time.Now().Add(lookTimeout))
	}
	if _, err := conn.Write(request(variables)); err != nil {
		return nil, err
	}
	return answer(bufio.NewReader(conn))
}

// request encodes a request.
func request(variables [][2]string) (b []byte) {
	b = record(b, beginRequest, []byte{0, responder, 0, 0, 0, 0, 0, 0})
	var pairs []byte
	for _, v := range variables {
		for _, s := range v {
			pairs = binary.BigEndian.AppendUint32(pairs, uint32(len(s))|1<<31)
		}
		pairs = append(append(pairs, v[0]...), v[1]...)
	}
	b = record(b, params, pairs)
	b = record(b, params, nil)
	return record(b, stdin, nil)
}

// record appends a record of less than 64 KiB.
func record(b []byte, kind byte, content []byte) []byte {
	b = append(b, version, kind, 0, requestID)
	b = binary.BigEndian.AppendUint16(b, uint16(len(content)))
	return append(append(b, 0, 0), content...)
}

// answer reads records to the end of the request.
func answer(r io.Reader) (all []byte, err error) {
	for {
		var head [headerBytes]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil, fmt.Errorf("a FastCGI record: %w", err)
		}
		if head[0] != version {
			return nil, fmt.Errorf("a FastCGI record of version %d, expected %d: does FPM listen there?", head[0], version)
		}
		content := make([]byte, int(binary.BigEndian.Uint16(head[4:]))+int(head[6]))
		if _, err := io.ReadFull(r, content); err != nil {
			return nil, fmt.Errorf("a FastCGI record: %w", err)
		}
		content = content[:len(content)-int(head[6])]
		switch head[1] {
		case stdout:
			if all = append(all, content...); len(all) > mostAnswer {
				return nil, errTooLong
			}
		case endRequest:
			if len(content) < 5 || content[4] != 0 {
				return nil, errors.New("FPM refused the request, as when it has too many")
			}
			return all, nil
		}
	}
}
