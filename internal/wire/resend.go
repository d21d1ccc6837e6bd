package wire

import (
	"encoding/hex"
	"time"
)

// Token is what shows that a request was cancelled by the one who gets it again. It
// is random, and good once. The zero Token is none.
type Token [tokenLen]byte

const tokenLen = 16

// String returns the token in hexadecimal digits, nothing of none.
func (t Token) String() string {
	if t == (Token{}) {
		return ""
	}
	return hex.EncodeToString(t[:])
}

// Resend says how a request that was cancelled while it ran may be sent again, by
// who knows that it may be executed twice: after a time, with the token in its Tags.
type Resend struct {
	Token Token
	// After is how long to wait before that, 0 to MaxDuration.
	After time.Duration
}

// Header returns what a client that knows nothing of Spillgate sends in the header
// HeaderName: Tags with the token.
func (r Resend) Header() string { return Header(Tags{Token: r.Token}.Append(nil)) }

// ResendOf returns the token in what Resend.Header returned, and false for anything else.
func ResendOf(header string) (Token, bool) {
	msg, err := FromHeader(header)
	if err != nil {
		return Token{}, false
	}
	tags, err := ParseTags(msg)
	return tags.Token, err == nil && tags.Token != (Token{})
}

// token reads a token that is not zero.
func (f *fields) token() (t Token) {
	if !f.size(tokenLen) {
		return Token{}
	}
	if t = Token(f.value); t == (Token{}) && f.err == nil {
		f.err = malformed("field %d is zero, expected a token", f.field)
	}
	return t
}
