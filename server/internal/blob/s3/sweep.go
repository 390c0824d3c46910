package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kymogram/kymogram/server/internal/blob"
)

// sweepBatch is how many blobs are asked about at once.
const sweepBatch = 500

// Sweep deletes the blobs that were put before a time, not put again since, and that used does
// not name; and what came of others, if nothing came since.
func (s *Store) Sweep(ctx context.Context, before time.Time, used func(hashes []string) (map[string]bool, error)) (files int, bytes int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the lists may be left
	var batch []minio.ObjectInfo
	flush := func() error {
		n, size, err := s.sweep(ctx, batch, before, used)
		files, bytes, batch = files+n, bytes+size, batch[:0]
		return err
	}
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + "blobs/", Recursive: true}) {
		if object.Err != nil {
			return files, bytes, wrap("list blobs", failure(object.Err))
		}
		if _, err := s.hashOf(object.Key); err != nil || !object.LastModified.Before(before) {
			continue
		}
		if batch = append(batch, object); len(batch) == sweepBatch {
			if err := flush(); err != nil {
				return files, bytes, err
			}
		}
	}
	return files, bytes, errors.Join(flush(), s.expire(ctx, before))
}

func (s *Store) hashOf(key string) (blob.Hash, error) {
	return blob.ParseHash(strings.ReplaceAll(strings.TrimPrefix(key, s.prefix+"blobs/"), "/", ""))
}

func (s *Store) sweep(ctx context.Context, batch []minio.ObjectInfo, before time.Time, used func([]string) (map[string]bool, error)) (files int, bytes int64, err error) {
	if len(batch) == 0 {
		return 0, 0, nil
	}
	hashes := make([]string, len(batch))
	for i := range batch {
		h, err := s.hashOf(batch[i].Key)
		if err != nil {
			return 0, 0, err
		}
		hashes[i] = h.String()
	}
	keep, err := used(hashes)
	if err != nil {
		return 0, 0, fmt.Errorf("sweep blobs: %w", err)
	}
	for i := range batch {
		if keep[hashes[i]] {
			continue
		}
		gone, err := s.deleteOld(ctx, batch[i].Key, before)
		if err != nil {
			return files, bytes, wrap("sweep blobs", failure(err))
		}
		if gone {
			files, bytes = files+1, bytes+batch[i].Size
		}
	}
	return files, bytes, nil
}

// deleteOld looks at the age once more: who puts a blob again is about to name it.
func (s *Store) deleteOld(ctx context.Context, key string, before time.Time) (gone bool, err error) {
	end, err := s.sweeping.Exclude(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	info, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if isMissing(err) || err == nil && !info.LastModified.Before(before) {
		return false, nil
	}
	if err == nil {
		err = s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
	}
	return err == nil, err
}

// expire drops uploads of which nothing came since.
func (s *Store) expire(ctx context.Context, before time.Time) error {
	var keys []string
	var newest time.Time
	upload := ""
	drop := func() error {
		if !newest.Before(before) {
			return nil
		}
		for _, key := range keys {
			if err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}); err != nil {
				return wrap("drop an upload", failure(err))
			}
		}
		return nil
	}
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.uploads(), Recursive: true}) {
		if object.Err != nil {
			return wrap("list uploads", failure(object.Err))
		}
		if of := object.Key[:strings.LastIndexByte(object.Key, '/')]; of != upload {
			if err := drop(); err != nil {
				return err
			}
			upload, keys, newest = of, nil, time.Time{}
		}
		keys = append(keys, object.Key)
		if object.LastModified.After(newest) {
			newest = object.LastModified
		}
	}
	return drop()
}
