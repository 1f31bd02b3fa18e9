// Package seq judges the sequence numbers of one stream.
//
//	            live n ──▶ Observe ──▶ Apply      n is the next one
//	                                   Duplicate  n is dealt with already
//	                                   Gap        Missing numbers lie before n
//	                                   Restart    the publisher began anew
//	                                   Refused    2^64-1 is never data
//	first of a connection ▶ ObserveFirst   the last number again is a Restart
//	replayed or held n ──▶ Replayed ─▶ the same, never Restart
//	given up up to n   ──▶ Skip
//
// Two positions are kept apart. Applied is the highest number that is dealt
// with, live or replayed. Live is the last number of the live socket; it alone
// tells a restart, because a replay also brings messages that are still on
// their way and arrive afterwards, below what is applied but in live order.
//
// A gap does not move Applied. The caller asks a replay endpoint from Next,
// passes what comes to Replayed, then what it held meanwhile, and skips what
// nobody can give it.
//
// A Machine is pure state without clock or input of its own. It belongs to one
// goroutine. Where several publishers share a socket, keep one per publisher;
// where they cannot be told apart, use none.
package seq
