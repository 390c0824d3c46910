// Command restart is test/e2e/restart.py in Go: a training that goes on after the last step.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/kymogram/kymogram"
)

func main() {
	count, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	run, err := kymogram.Init(context.Background(), kymogram.Options{RunName: "r", ResumeStrategy: kymogram.ResumeAllow})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	last, ok, err := run.FindLastStep(ctx, "loss")
	cancel()
	if err != nil {
		log.Fatal(err)
	}
	start := int64(0)
	if ok {
		start = last + 1
	}
	fmt.Println(start)
	for step := start; step < start+count; step++ {
		if err := run.Log("loss", float64(step), kymogram.Step(step)); err != nil {
			log.Fatal(err)
		}
		fmt.Println(step)
		time.Sleep(5 * time.Millisecond)
	}
	if err := run.Close(context.Background()); err != nil {
		log.Print(err) // what is left is delivered later
	}
}
