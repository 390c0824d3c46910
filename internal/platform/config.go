package platform

import "path/filepath"

// ConfigFolder is the folder of the user's configuration by the XDG specification, which
// ignores a relative path; "" without one.
func ConfigFolder(env func(string) string) string {
	if folder := env("XDG_CONFIG_HOME"); filepath.IsAbs(folder) {
		return folder
	}
	home := env("HOME")
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".config")
}
