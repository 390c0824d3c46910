package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/spool"
)

// Start starts this program with args, which make it an agent of the folder; its log
// takes what it prints. The new process has a session of its own, no inherited
// descriptor, no folder that it keeps busy and no API keys: it finds these where they
// are stored.
func Start(folder *spool.Folder, args ...string) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	out, err := os.OpenFile(logOf(folder), os.O_WRONLY|os.O_CREATE|os.O_APPEND|platform.NoFollow, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open the agent's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = platform.RootFolder, out, out
	cmd.SysProcAttr = platform.Detached()
	cmd.Env = environ(os.Environ())
	if err := platform.KeepDescriptors(); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the agent: %w", err)
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// environ is an environment without keys, whose certificates are found from
// another folder too.
func environ(environ []string) (out []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasSuffix(name, "_API_KEY"):
			continue
		case name == "SSL_CERT_FILE" || name == "SSL_CERT_DIR":
			entry = name + "=" + fullPaths(value)
		}
		out = append(out, entry)
	}
	return out
}

func fullPaths(list string) string {
	paths := filepath.SplitList(list)
	for i, path := range paths {
		if full, err := filepath.Abs(path); err == nil {
			paths[i] = full
		}
	}
	return strings.Join(paths, string(filepath.ListSeparator))
}
