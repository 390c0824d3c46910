package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kymogram/kymogram/server/internal/config"
)

// settings reads a server's configuration from a command's flags.
type settings struct {
	file  string
	flags *pflag.FlagSet
}

// addTo gives a command --config and a flag for every setting.
func (s *settings) addTo(cmd *cobra.Command, io stdio) {
	defaults := config.Default(io.env)
	s.flags = cmd.Flags()
	s.flags.StringVar(&s.file, "config", "", "YAML file with settings (default "+config.FileEnv+", else none)")
	for _, f := range config.Fields() {
		if f.Flag == "-" {
			continue
		}
		usage := fmt.Sprintf("%s (%s)", f.Usage, f.Env)
		if f.Bool {
			s.flags.Bool(f.Flag, false, usage)
		} else {
			s.flags.String(f.Flag, f.Text(defaults), usage)
		}
	}
}

// load merges defaults, file, environment and the flags that were given.
func (s *settings) load(io stdio) (config.Config, error) {
	given := map[string]string{}
	for _, f := range config.Fields() {
		if flag := s.flags.Lookup(f.Flag); flag != nil && flag.Changed {
			given[f.Key] = flag.Value.String()
		}
	}
	return config.Load(s.file, io.env, given)
}

func configCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Check and show a server's settings",
	}, configCheckCommand(io), configShowCommand(io))
}

func configCheckCommand(io stdio) *cobra.Command {
	var s settings
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Check the settings that serve would start with",
		Example: "  kymogram config check --config /etc/kymogram/kymogram.yaml",
		RunE: func(*cobra.Command, []string) error {
			if _, err := s.load(io); err != nil {
				return err
			}
			if asJSON {
				return printJSON(io.out, map[string]bool{"ok": true})
			}
			fmt.Fprintln(io.out, "the configuration is good")
			return nil
		},
	}
	s.addTo(cmd, io)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func configShowCommand(io stdio) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print every setting with its value, secrets hidden, as YAML",
		Example: "  kymogram config show > kymogram.yaml",
		RunE: func(*cobra.Command, []string) error {
			c, err := s.load(io)
			if err != nil {
				return err
			}
			text, err := c.Show()
			if err != nil {
				return err
			}
			fmt.Fprint(io.out, text)
			return nil
		},
	}
	s.addTo(cmd, io)
	return cmd
}
