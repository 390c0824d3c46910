package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
)

// 64 streams that send messages of 7.5 MiB at once take a bounded amount of memory.
func TestManyLargeMessagesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it sends a gigabyte")
	}
	s := &killable{t: t, data: t.TempDir()}
	s.start()
	t.Cleanup(s.kill)
	message := &kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: &kymogramv1.Batch{
		First: 1, Last: 1, Groups: []*kymogramv1.RowGroup{{Columns: []*kymogramv1.Column{{Series: 1, Floats: make([]float64, 15<<16)}}}},
	}}}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			stream, err := kymogramv1.NewIngestServiceClient(conn).Stream(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if err := stream.Send(message); err != nil {
				return // it was refused while it was sent
			}
			_, _ = stream.Recv() // refused: it is no open
		})
	}
	all.Wait()
	peak := s.peakMiB()
	t.Logf("peak %d MiB", peak)
	if peak > 1024 {
		t.Errorf("the server took %d MiB", peak)
	}
}
