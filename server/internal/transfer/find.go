package transfer

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/importer"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// NameError is a name that a person gave and that does not fit.
type NameError struct{ error }

// Unwrap is what is wrong with it.
func (e NameError) Unwrap() error { return e.error }

// Found is what there is to import, and how far it is read.
type Found struct {
	Runs []importer.Found
	bar  progress.Bar
}

// show begins to show a person how much is read, and how long it will take: by bytes,
// or where these are not known by runs, each so much.
func (f *Found) show(w io.Writer) (each int64) {
	total := int64(0)
	for _, one := range f.Runs {
		total += one.Bytes
	}
	if total > 0 {
		f.bar = progress.Bytes(w, total, "reading")
		return 0
	}
	f.bar = progress.Count(w, int64(len(f.Runs)), "runs")
	return 1 // a database, or many small files
}

// Find lists the runs of all paths, each with a name of its own; name is that of the
// only one, "" for their names in the source.
func Find(ctx context.Context, source importer.Source, paths []string, name string, options importer.Options) (*Found, error) {
	out := new(Found)
	options.Progress = func(bytes int) {
		if out.bar.ProgressBar != nil {
			out.bar.Done(int64(bytes))
		}
	}
	var err error
	out.Runs, err = find(ctx, source, paths, name, options)
	return out, err
}

func find(ctx context.Context, source importer.Source, paths []string, name string, options importer.Options) ([]importer.Found, error) {
	var all []importer.Found
	for _, path := range paths {
		found, err := source.Find(ctx, followed(path), options)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, model.Errorf(model.CodeNotFound, "there is no run of %s in %s", source.Name, path).
				WithHint("see kymogram import %s --help for what it reads", source.Name)
		}
		all = append(all, found...)
	}
	if name != "" {
		wanted := slices.DeleteFunc(all, func(one importer.Found) bool { return one.Left != "" })
		if len(wanted) != 1 {
			return nil, NameError{fmt.Errorf("--run names one run, and there are %d", len(wanted))}
		}
		all = wanted
		all[0].Name = name
	}
	names := map[string]string{}
	for i := range all {
		one := &all[i]
		if err := model.CheckRunName(one.Name); err != nil && name != "" {
			return nil, NameError{err}
		}
		one.Name = importer.CleanRunName(one.Name)
		if one.Left != "" {
			continue
		}
		place := importer.CleanProject(one.Project) + "/" + one.Name
		other, taken := names[place]
		if taken && one.Short != "" { // of two stores
			one.Name = distinct(one)
			place += "-" + one.Short
			other, taken = names[place]
		}
		if taken {
			return nil, model.Errorf(model.CodeConflict, "two runs are called %q (%s and %s)", one.Name, other, one.Key).
				WithHint("import the folder above both, or one after the other with --run")
		}
		names[place] = one.Key
	}
	return all, nil
}

// followed leads a walk into a folder that path is a symbolic link to: a walk of the link
// itself would end there.
func followed(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() || os.IsPathSeparator(path[len(path)-1]) {
		return path
	}
	if link, err := os.Lstat(path); err != nil || link.Mode()&os.ModeSymlink == 0 {
		return path
	}
	return path + string(os.PathSeparator)
}

// distinct is the name of a run whose own name another run has.
func distinct(one *importer.Found) string {
	return model.CutBytes(one.Name, model.MaxNameBytes-len(one.Short)-1) + "-" + one.Short
}
