package migration

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/kymogram/kymogram/internal/model"
)

// Target writes to Kymogram.
type Target struct{ *Client }

// ownRun is a run as Kymogram has it. Imported is nil where no import made it.
type ownRun struct {
	ID       string `json:"id"`
	Imported *struct {
		Key    string `json:"key"`
		Digest string `json:"digest"`
	} `json:"imported"`
}

// runs reads runs by their names. One that is not there is nil.
func (t *Target) runs(ctx context.Context, at Place, names []string) (map[string]*ownRun, error) {
	document, variables := aliased("ImportedRuns", "id imported { key digest }", at, names)
	var doc struct {
		Project map[string]*ownRun `json:"project"`
	}
	if err := t.Query(ctx, document, variables, maxAnswer, &doc); err != nil {
		return nil, err
	}
	return byName(doc.Project, names), nil
}

// upsert makes a run or changes it, and gives its id.
func (t *Target) upsert(ctx context.Context, input map[string]any) (id string, err error) {
	const document = `mutation UpsertBucket($input: UpsertBucketInput!) { upsertBucket(input: $input) { bucket { id } } }`
	var doc struct {
		UpsertBucket struct{ Bucket struct{ ID string } }
	}
	err = t.Query(ctx, document, map[string]any{"input": input}, maxAnswer, &doc)
	return doc.UpsertBucket.Bucket.ID, err
}

// rewind takes a run back to a step.
func (t *Target) rewind(ctx context.Context, at Place, run string, step float64) error {
	const document = `mutation RewindRun($entity: String, $project: String, $run: String!, $step: Float!) {
		rewindRun(input: {entityName: $entity, projectName: $project, runName: $run, metricName: "_step", metricValue: $step}) { rewoundRun { id } } }`
	var doc struct{}
	return t.Query(ctx, document, map[string]any{"entity": at.Entity, "project": at.Project, "run": run, "step": step}, maxAnswer, &doc)
}

// stream sends lines of a file of the stream: wandb-history.jsonl or wandb-events.jsonl.
func (t *Target) stream(ctx context.Context, at Place, run, file string, offset int64, lines []string) error {
	size := 128
	for _, line := range lines {
		size += len(line) + len(line)/4 + 8
	}
	body := fmt.Appendf(make([]byte, 0, size), `{"files":{%q:{"offset":%d,"content":[`, file, offset)
	for i, line := range lines {
		if i > 0 {
			body = append(body, ',')
		}
		body = model.AppendJSONText(body, line)
	}
	body = append(body, "]}}}"...)
	path := "/files/" + url.PathEscape(at.Entity) + "/" + url.PathEscape(at.Project) + "/" + url.PathEscape(run) + "/file_stream"
	return t.again(ctx, func(ctx context.Context) error {
		answer, err := t.post(ctx, path, body)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxRefusal))
		if err != nil {
			return later{model.Errorf(model.CodeUnavailable, "an answer of %s broke off: %v", t.Name, err), 0}
		}
		return nil
	})
}

// addresses asks where files are to be sent.
func (t *Target) addresses(ctx context.Context, at Place, run string, names []string) (map[string]string, error) {
	const document = `mutation CreateRunFiles($entity: String!, $project: String!, $run: String!, $files: [String!]!) {
		createRunFiles(input: {entityName: $entity, projectName: $project, runName: $run, files: $files}) { files { name uploadUrl } } }`
	var doc struct {
		CreateRunFiles struct {
			Files []struct{ Name, UploadURL string }
		}
	}
	if err := t.Query(ctx, document, map[string]any{"entity": at.Entity, "project": at.Project, "run": run, "files": names}, maxAnswer, &doc); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range doc.CreateRunFiles.Files {
		out[f.Name] = f.UploadURL
	}
	return out, nil
}

// copyFile takes a file from the source to the target, through memory in parts. It is
// checked by its length and, where the source has it, by its MD5.
func copyFile(ctx context.Context, from *Source, to *Target, file *runFile, address string, tell func(bytes int)) error {
	return from.again(ctx, func(ctx context.Context) error {
		where := file.URL
		if where == "" {
			where = file.Direct
		}
		at, err := from.Base.Parse(where)
		if err != nil || where == "" {
			return model.Errorf(model.CodeInvalid, "%s gives no address of the file %s", from.Name, model.Clip(file.Name))
		}
		get, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return err
		}
		answer, err := from.send(ctx, get)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.ContentLength >= 0 && answer.ContentLength != int64(file.Size) && !answer.Uncompressed {
			return later{model.Errorf(model.CodeConflict, "the file %s has %d bytes, and its list says %d", model.Clip(file.Name), answer.ContentLength, file.Size), 0}
		}
		sum := md5.New()
		body := &counted{io.TeeReader(io.LimitReader(answer.Body, int64(file.Size)+1), sum), tell, nil}
		put, err := http.NewRequestWithContext(ctx, http.MethodPut, address, body)
		if err != nil {
			return err
		}
		if put.ContentLength = int64(file.Size); file.Size == 0 {
			put.Body = http.NoBody
		}
		taken, err := to.send(ctx, put)
		if body.err != nil {
			return later{model.Errorf(model.CodeUnavailable, "the file %s broke off: %v", model.Clip(file.Name), body.err), 0}
		}
		if err != nil {
			return err
		}
		taken.Body.Close()
		if got := base64.StdEncoding.EncodeToString(sum.Sum(nil)); file.MD5 != "" && got != file.MD5 {
			return later{model.Errorf(model.CodeConflict, "the file %s came with another MD5 than its list says", model.Clip(file.Name)), 0}
		}
		return nil
	})
}

// counted tells what is read, and keeps the error that ended it.
type counted struct {
	io.Reader
	tell func(bytes int)
	err  error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.tell(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
