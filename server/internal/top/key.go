package top

import (
	"io"
	"unicode/utf8"
)

// press is one key: a character, or the name of another.
type press string

const (
	keyUp     press = "up"
	keyDown   press = "down"
	keyPageUp press = "pgup"
	keyPageDn press = "pgdn"
	keyHome   press = "home"
	keyEnd    press = "end"
	keyEnter  press = "enter"
	keyEscape press = "esc"
	keyErase  press = "erase"
	keyStop   press = "stop"
)

// escapes are what terminals send for keys without a character.
var escapes = map[string]press{
	"[A": keyUp, "[B": keyDown, "OA": keyUp, "OB": keyDown, "[5~": keyPageUp, "[6~": keyPageDn,
	"[H": keyHome, "[F": keyEnd, "OH": keyHome, "OF": keyEnd, "[1~": keyHome, "[4~": keyEnd,
}

var controls = map[byte]press{
	'\r': keyEnter, '\n': keyEnter, 0x03: keyStop, 0x04: keyStop, 0x7f: keyErase, 0x08: keyErase, 0x15: keyHome,
}

// readKeys passes on what a person types until the terminal is closed. A terminal cannot be
// read with a deadline, so this goroutine ends with the terminal or the process.
func readKeys(terminal io.Reader, tell chan<- press, done <-chan struct{}) {
	buffer := make([]byte, 256)
	for {
		n, err := terminal.Read(buffer)
		for _, k := range decode(buffer[:n]) {
			select {
			case tell <- k:
			case <-done:
				return
			}
		}
		if err != nil {
			select {
			case tell <- keyStop:
			case <-done:
			}
			return
		}
	}
}

// decode splits what came at once into keys. An unknown sequence is left out as a whole.
func decode(b []byte) (out []press) {
	for len(b) > 0 {
		k, size := first(b)
		if k != "" {
			out = append(out, k)
		}
		b = b[size:]
	}
	return out
}

func first(b []byte) (press, int) {
	if b[0] == 0x1b {
		return escape(b)
	}
	if k, ok := controls[b[0]]; ok {
		return k, 1
	}
	r, size := utf8.DecodeRune(b)
	if r < ' ' || r == utf8.RuneError {
		return "", size
	}
	return press(b[:size]), size
}

func escape(b []byte) (press, int) {
	if len(b) == 1 || (b[1] != '[' && b[1] != 'O') {
		return keyEscape, 1
	}
	end := 2
	for b[1] == '[' && end < len(b) && (b[end] < '@' || b[end] > '~') {
		end++
	}
	if end == len(b) {
		return "", end
	}
	return escapes[string(b[1:end+1])], end + 1
}
