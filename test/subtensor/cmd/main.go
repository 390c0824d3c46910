// Command cmd serves the test chain of package subtensor to other programs: it
// prints ready ws=URL and runs until it is stopped. The JSON-RPC method dev_newBlock
// makes blocks; so does a number on a line of its own, and the answer is the height.
//
//	go run ./test/subtensor/cmd --join 5EXc8RKduaYz9dvFoo5cq9h2czgTxHnRg4KJasBK4Rbco6Ko
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/test/subtensor"
)

// exitMissing tells a caller that the dev genesis is not there.
const exitMissing = 3

func main() { os.Exit(mainRun()) }

func mainRun() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	netuid := flag.Int("netuid", 1, "subnet that --join is about")
	join := flag.String("join", "", "addresses of hotkeys to register in the subnet, with commas between")
	fund := flag.String("fund", "", "addresses that get a balance, with commas between")
	flag.Parse()
	err := run(ctx, *listen, *netuid, split(*join), split(*fund))
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, fs.ErrNotExist) {
		return exitMissing
	}
	return 1
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func run(ctx context.Context, address string, netuid int, join, fund []string) error {
	code, err := subtensor.Load(ctx, subtensor.Path())
	if err != nil {
		return err
	}
	storage := map[string][]byte{}
	for _, text := range fund {
		account, _, err := wallet.ParseAddress(text)
		if err != nil {
			return err
		}
		key, value := subtensor.Fund(account, 1<<50)
		storage[key] = value
	}
	node, err := code.NewNode(ctx, subtensor.Options{Storage: storage})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: node} //nolint:gosec // a test's own clients
	context.AfterFunc(ctx, func() { _ = server.Close() })
	url := "ws://" + listener.Addr().String()
	go func() {
		if err := register(ctx, url, netuid, join); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("ready ws=%s\n", url)
		produce(ctx, node)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// produce makes as many blocks as each line of the input says.
func produce(ctx context.Context, node *subtensor.Node) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		count, err := strconv.Atoi(lines.Text())
		if err == nil {
			err = node.Produce(ctx, count)
		}
		fmt.Println(node.Number(), err)
	}
}

func register(ctx context.Context, url string, netuid int, join []string) error {
	for _, text := range join {
		hotkey, _, err := wallet.ParseAddress(text)
		if err == nil {
			err = subtensor.Join(ctx, url, netuid, hotkey)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
