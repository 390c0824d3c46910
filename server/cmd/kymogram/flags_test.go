package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pflag takes what stands in back quotes for the name of a flag's value: a sentence
// there ends up in the wrong column of --help.
func TestFlagsNameTheirValuesInAWord(t *testing.T) {
	seen := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			seen++
			if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
				t.Errorf("%s --%s %s", c.CommandPath(), f.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(stdio{env: os.Getenv}))
	if seen < 100 {
		t.Errorf("%d flags were looked at", seen)
	}
}
