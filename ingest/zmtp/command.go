package zmtp

import "bytes"

// Command names behind the handshake.
const (
	cmdPing      = "PING"
	cmdPong      = "PONG"
	cmdSubscribe = "SUBSCRIBE"
	cmdCancel    = "CANCEL"
)

// maxPingContext is the longest context a PING may carry and a PONG returns.
const maxPingContext = 16

// splitCommand splits a command frame into name and body.
func splitCommand(p []byte) (name, body []byte, ok bool) {
	if len(p) == 0 || len(p) < 1+int(p[0]) {
		return nil, nil, false
	}
	n := 1 + int(p[0])
	return p[1:n], p[n:], true
}

// pingContext is the part of a PING's body that its PONG must repeat: what
// follows the two bytes of its time to live.
func pingContext(body []byte) ([]byte, bool) {
	if len(body) < 2 || len(body) > 2+maxPingContext {
		return nil, false
	}
	return body[2:], true
}

// subscription reads a subscription in either form: the message \x01topic or
// \x00topic of ZMTP 3.0, the commands SUBSCRIBE and CANCEL of 3.1.
func subscription(m Message) (topic []byte, on, ok bool) {
	if m.command {
		name, body, ok := splitCommand(m.frames[0])
		if !ok {
			return nil, false, false
		}
		switch {
		case bytes.Equal(name, []byte(cmdSubscribe)):
			return body, true, true
		case bytes.Equal(name, []byte(cmdCancel)):
			return body, false, true
		}
		return nil, false, false
	}
	if len(m.frames) != 1 || len(m.frames[0]) == 0 || m.frames[0][0] > 1 {
		return nil, false, false
	}
	return m.frames[0][1:], m.frames[0][0] == 1, true
}
