package audit

import "os"

// Append opens the file of a log to append to, and makes it with mode 0600. A last line that a crash has cut off gets
// its end, so that the next is a line of its own.
func Append(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if cutOff(path) {
		if _, err := f.WriteString("\n"); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

// cutOff reports whether a file has a last line without an end.
func cutOff(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}
