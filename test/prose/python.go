package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// extract reads Python as Python does.
//
//go:embed extract.py
var extract string

// pythonTexts are the docstrings of what users call, and the messages of the package.
func pythonTexts(root string) ([]text, error) {
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	cmd := exec.Command(python, "-c", extract, root)
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("read the Python package: %w", err)
	}
	var found []struct {
		File    string
		Line    int
		Doc     bool
		Content string
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, err
	}
	var out []text
	for _, f := range found {
		r := message
		if f.Doc {
			r = strict
		} else if !isProse(f.Content) {
			continue
		}
		out = append(out, paragraphs(f.File, f.Line, f.Content, r)...)
	}
	return out, nil
}
