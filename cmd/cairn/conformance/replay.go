package conformance

import "errors"

// transcript is one line of replay.jsonl: messages on the live and the replay
// socket.
type transcript struct {
	ID    string `json:"id"`
	Steps []struct {
		Do string `json:"do"`
	} `json:"steps"`
}

// playReplay reads transcripts, and plays none: a client of the replay socket
// does not exist yet. Their kinds of steps are checked all the same.
func playReplay(f *File, lines []line) error {
	for _, l := range lines {
		var t transcript
		if err := l.decode(&t); err != nil {
			return err
		}
		for _, s := range t.Steps {
			switch s.Do {
			case "live", "request", "reply", "reconnect", "timeout":
			default:
				return errors.New(t.ID + ": unknown kind of step " + s.Do)
			}
		}
		f.skip(t.ID, "repair from the replay socket does not exist yet")
	}
	return nil
}
