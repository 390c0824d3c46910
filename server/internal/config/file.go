package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/spelling"
)

// maxFile is more than a configuration needs.
const maxFile = 1 << 20

// reader reads a file of settings. Each error names the file, the line and the key.
type reader struct {
	file    string
	config  *Config
	fields  []Field
	anchors map[string]ast.Node
	lines   map[string]int // of the keys that were read
}

// readFile reads the settings of a file, and says on which line each is.
func (c *Config) readFile(file string) (lines map[string]int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, invalid("cannot read the configuration: %v", err).WithHint("name a readable file with --config FILE")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, invalid("cannot read the configuration: %v", err).WithHint("name a readable file with --config FILE")
	}
	if len(text) > maxFile {
		return nil, invalid("%s has more than %d bytes, which no configuration needs", file, maxFile)
	}
	r := &reader{file: file, config: c, fields: Fields(), anchors: map[string]ast.Node{}, lines: map[string]int{}}
	return r.lines, r.read(text)
}

func (r *reader) read(text []byte) error {
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			return invalid("%s:%d: this is no YAML: %s", r.file, at.GetToken().Position.Line, at.GetMessage())
		}
		return invalid("%s: this is no YAML: %v", r.file, err)
	}
	if len(tree.Docs) > 1 {
		return invalid("%s holds more than one YAML document", r.file)
	}
	for _, doc := range tree.Docs {
		if err := r.section("", doc.Body); err != nil {
			return err
		}
	}
	return nil
}

// wrong names the place of an error.
func (r *reader) wrong(node ast.Node, format string, args ...any) *model.Error {
	return invalid("%s:%d: %s", r.file, lineOf(node), fmt.Sprintf(format, args...))
}

func lineOf(node ast.Node) int {
	if token := node.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line
	}
	return 1
}

// plain is a node without its anchor, its tag, or what it stands for.
func (r *reader) plain(node ast.Node) (ast.Node, error) {
	switch n := node.(type) {
	case *ast.AnchorNode:
		r.anchors[n.Name.GetToken().Value] = n.Value
		return r.plain(n.Value)
	case *ast.TagNode:
		return r.plain(n.Value)
	case *ast.AliasNode:
		known := r.anchors[n.Value.GetToken().Value]
		if known == nil {
			return nil, r.wrong(node, "there is no anchor %q above", n.Value.GetToken().Value)
		}
		return known, nil
	}
	return node, nil
}

// pairs are the keys and values of a mapping; nil has none.
func (r *reader) pairs(key string, node ast.Node) ([]*ast.MappingValueNode, error) {
	switch n := node.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil, nil
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	}
	if key == "" {
		return nil, r.wrong(node, "this is %s, not settings", kindOf(node)).WithHint("write KEY: VALUE, a line each; kymogram config show prints every key")
	}
	return nil, r.wrong(node, "%s is %s, it holds settings of its own", key, kindOf(node)).WithHint("below %s may be: %s", key, strings.Join(r.below(key), ", "))
}

func kindOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.NullNode:
		return "empty"
	case ast.ScalarNode:
		return strconv.Quote(model.Clip(fmt.Sprint(n.GetValue())))
	}
	return "something else"
}

// section reads the settings below a key, "" for all.
func (r *reader) section(key string, node ast.Node) error {
	if node != nil {
		var err error
		if node, err = r.plain(node); err != nil {
			return err
		}
	}
	pairs, err := r.pairs(key, node)
	if err != nil {
		return err
	}
	seen := map[string]int{}
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		full := strings.TrimPrefix(key+"."+name, ".")
		if before := seen[name]; before > 0 {
			return r.wrong(pair.Key, "%s is given twice, first in line %d", full, before).WithHint("leave one of them out")
		}
		seen[name] = lineOf(pair.Key)
		if err := r.one(full, pair); err != nil {
			return err
		}
	}
	return nil
}

// one reads a setting, or a section.
func (r *reader) one(key string, pair *ast.MappingValueNode) error {
	if strings.Contains(pair.Key.GetToken().Value, ".") {
		return r.unknown(key, pair.Key)
	}
	i := slices.IndexFunc(r.fields, func(f Field) bool { return f.Key == key })
	if i < 0 && len(r.below(key)) > 0 {
		return r.section(key, pair.Value)
	}
	if i < 0 {
		return r.unknown(key, pair.Key)
	}
	r.lines[key] = lineOf(pair.Key)
	value, err := r.plain(pair.Value)
	if err != nil {
		return err
	}
	return r.set(r.fields[i], value)
}

// set reads the value of a setting; an empty one leaves the default.
func (r *reader) set(f Field, value ast.Node) error {
	isList := reflect.TypeFor[Config]().FieldByIndex(f.index).Type.Kind() == reflect.Slice
	switch n := value.(type) {
	case *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		if !isList {
			return r.wrong(value, "%s is a list, it is one value", f.Key)
		}
		return r.setList(f, n)
	case *ast.MappingNode, *ast.MappingValueNode:
		return r.wrong(value, "%s is a mapping, it is one value", f.Key)
	}
	if isList {
		return r.wrong(value, "%s is %s, it must be a list", f.Key, kindOf(value)).WithHint("write %s: [%s]", lastOf(f.Key), scalar(value))
	}
	if err := f.set(r.config, scalar(value), f.Key); err != nil {
		e := *model.Shown(err)
		e.Message = fmt.Sprintf("%s:%d: %s", r.file, lineOf(value), e.Message)
		return &e
	}
	return nil
}

func (r *reader) setList(f Field, list *ast.SequenceNode) error {
	texts := make([]string, len(list.Values))
	for i, item := range list.Values {
		item, err := r.plain(item)
		if err != nil {
			return err
		}
		if _, ok := item.(ast.ScalarNode); !ok {
			return r.wrong(item, "an entry of %s is %s, it must be a text", f.Key, kindOf(item))
		}
		texts[i] = scalar(item)
	}
	reflect.ValueOf(r.config).Elem().FieldByIndex(f.index).Set(reflect.ValueOf(texts))
	return nil
}

// scalar is the text of a value as it is written, an integer in decimal.
func scalar(node ast.Node) string {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return fmt.Sprint(n.Value)
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.StringNode:
		return n.Value
	}
	return node.GetToken().Value
}

func lastOf(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// below are the names that a section has.
func (r *reader) below(section string) (names []string) {
	for _, f := range r.fields {
		rest, ok := strings.CutPrefix(f.Key, section+".")
		if section == "" {
			rest, ok = f.Key, true
		}
		if name, _, _ := strings.Cut(rest, "."); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// unknown says which key was probably meant: one of the same section, else one of another.
func (r *reader) unknown(key string, at ast.Node) error {
	e := r.wrong(at, "unknown key %q", model.Clip(key))
	section := ""
	if i := strings.LastIndex(key, "."); i >= 0 {
		section = key[:i]
	}
	word := at.GetToken().Value
	if slices.ContainsFunc(r.fields, func(f Field) bool { return f.Key == word }) {
		return e.WithHint("write it below its section, as %s", strings.ReplaceAll(word, ".", ": {")+": …"+strings.Repeat("}", strings.Count(word, ".")))
	}
	if near := spelling.Near(word, r.below(section), 1); len(near) > 0 {
		return e.WithHint("did you mean %s?", strings.TrimPrefix(section+"."+near[0], "."))
	}
	for _, f := range r.fields {
		if _, ok := spelling.Far(word, lastOf(f.Key)); ok {
			return e.WithHint("did you mean %s?", f.Key)
		}
	}
	return e.WithHint("kymogram config show lists every key")
}
