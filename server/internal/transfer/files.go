package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/kymogram/kymogram/read"
)

// FilesOptions say which files of a run are downloaded, and where to.
type FilesOptions struct {
	Prefix string // of their names
	Limit  int    // 0: all
	Folder string
}

// FilesReport counts what a download found, as `kymogram files --download --json` prints it.
type FilesReport struct {
	Written int      `json:"written"`
	There   int      `json:"there"`
	Bytes   int64    `json:"bytes"` // written
	Files   []string `json:"files"`

	folder string
}

// Print writes it for a person.
func (r *FilesReport) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%d files in %s, %d were there\n", r.Written, r.folder, r.There)
	return err
}

// Files downloads the files of a run; none there is overwritten.
func Files(ctx context.Context, run *read.Run, o FilesOptions) (*FilesReport, error) {
	report := &FilesReport{Files: []string{}, folder: o.Folder}
	for f, err := range run.Files(ctx, o.Prefix) {
		if err != nil {
			return nil, err
		}
		name, written, err := f.Download(ctx, o.Folder)
		if err != nil {
			return nil, err
		}
		report.Files = append(report.Files, name)
		if written {
			report.Written++
			report.Bytes += f.Size
		} else {
			report.There++
		}
		if o.Limit > 0 && len(report.Files) >= o.Limit {
			break
		}
	}
	return report, nil
}
