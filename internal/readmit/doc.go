// Package readmit decides what becomes of requests whose kind was cancelled lately,
// and of requests that were cancelled and are sent again.
//
//	cancel of a culprit ──▶ Limit: its kind begins no more, for a while
//	                    └─▶ Issue: a token for the one that was cancelled
//	                                  │ the client sends it again, with the token
//	                                  ▼
//	                        Ask ──▶ Refuse   the kind is limited, and no token
//	                            ├─▶ Later    the server was not well for long enough
//	                            └─▶ Protect  once: it is let in, and not cancelled
//
// Without the limit, clients would send the culprit again at once. Without the
// token, a cancelled request would wait as long as all others of its kind and be
// cancelled again: it alone would pay for the safety of its victims.
//
// Invariants: a token protects one request of the kind that it was issued for, and
// one only; it is valid again if that request was not admitted. A foreground token is
// dropped when it is older than Config.Keep, which is what the request's objective
// allows. A background token is honoured after Config.MaxWait, however the server is.
// Limits end by themselves. At most Config.Tokens tokens and Config.Kinds limits
// exist; of more, the oldest go.
//
// What this package does not do: it generates no tokens, because they must be random; it
// reads no clock; it does not find culprits. Atropos (SOSP 2025), section 4, runs a
// cancelled request again inside the server; here the client decides.
package readmit
