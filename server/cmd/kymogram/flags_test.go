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

// A command takes the arguments that its line of usage shows.
func TestArguments(t *testing.T) {
	for use, most := range map[string][2]int{
		"list": {0, 0}, "backup --to DIR": {0, 0}, "list [WORKSPACE/PROJECT]": {0, 1}, "verify RUN|FILE": {1, 1}, "csv PATH…": {1, 3},
	} {
		for n := range 4 {
			err := arguments(use)(&cobra.Command{Use: use}, make([]string, n))
			if (err == nil) != (n >= most[0] && n <= most[1]) {
				t.Errorf("%s with %d: %v", use, n, err)
			}
		}
	}
}
